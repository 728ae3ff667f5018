# SPDX-License-Identifier: MIT
"""torch's scaled_dot_product_attention, by one backend, on contiguous tensors: no paging to pay."""


class TorchPeer:
    value_type = 'bfloat16'
    op = None  # both

    def __init__(self, name):
        self.name = name

    def refuses(self, shape):
        if not shape.is_even:
            return 'it has no ragged batches'
        context, new = shape.requests[0]
        if self.name == 'cudnn' and 1 < new < context:
            return 'its causal mask is for as many queries as keys'
        return None

    def calls(self, torch, cache):
        """Every form of the call: which is the fastest differs from shape to shape."""
        shape = cache.shape
        context, new = shape.requests[0]
        sides = [torch.stack([torch.stack([cache.request(side, i, s).bfloat16()
                                           for i in range(shape.batch)])
                              for s in range(cache.num_sets)]).transpose(2, 3).contiguous()
                 for side in (cache.k, cache.v)]
        q = cache.q.view(shape.batch, new, shape.q_heads, shape.head_dim).transpose(1, 2)
        q = q.contiguous()
        if new == 1:
            # The heads of a group as queries of its kv head, or grouped heads.
            folded = q.view(shape.batch, shape.kv_heads, -1, shape.head_dim)
            forms = [(folded, {}), (q, {'enable_gqa': True})]
        elif new == context:
            forms = [(q, {'enable_gqa': True, 'is_causal': True})]
        else:
            from torch.nn.attention.bias import causal_lower_right
            forms = [(q, {'enable_gqa': True, 'attn_mask': causal_lower_right(new, context)})]
        return [self.call(torch, query, sides, options) for query, options in forms]

    def call(self, torch, query, sides, options):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        backend = {'cudnn': SDPBackend.CUDNN_ATTENTION,
                   'flash': SDPBackend.FLASH_ATTENTION}[self.name]
        num_sets = len(sides[0])

        def call(index):
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(
                    query, sides[0][index % num_sets], sides[1][index % num_sets], **options)
        return call

    def rows_first(self, cache, output):
        """[queries, q_heads, head_dim] of what a call returned."""
        shape = cache.shape
        new = shape.requests[0][1]
        output = output.reshape(shape.batch, shape.q_heads, new, shape.head_dim)
        return output.transpose(1, 2).contiguous()
