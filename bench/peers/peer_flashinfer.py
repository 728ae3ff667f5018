# SPDX-License-Identifier: MIT
"""FlashInfer on paged caches (page, head, slot): FA2 and XQA for decode, FA2 and FA3 for extend.
Planning is outside the timing."""

WORKSPACE_BYTES = 512 << 20


class FlashInferPeer:
    def __init__(self, name):
        self.name = name
        self.kind = name.split('_')[0]
        self.op = {'xqa': 'decode', 'fa3': 'extend'}.get(self.kind)  # None: both
        self.value_type = 'float8_e4m3fn' if name.endswith('_fp8') else 'bfloat16'

    def refuses(self, shape):
        if self.op not in (None, shape.op):
            return f'it is for {self.op}'
        if self.kind == 'xqa' and not shape.is_even:
            return 'it is asked for equal lengths only'
        return None

    def calls(self, torch, cache):
        import flashinfer
        workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device='cuda')
        output = torch.empty_like(cache.q)
        form = self.xqa if self.kind == 'xqa' else self.planned
        return [form(torch, flashinfer, cache, workspace, output)]

    def xqa(self, torch, flashinfer, cache, workspace, output):
        shape = cache.shape
        table = torch.stack(cache.pages)
        lengths = torch.tensor([context for context, _ in shape.requests], dtype=torch.int32,
                               device='cuda')

        def call(index):
            return flashinfer.decode.xqa_batch_decode_with_kv_cache(
                cache.q, (cache.k[index % cache.num_sets], cache.v[index % cache.num_sets]),
                workspace, table, lengths, shape.requests[0][0],
                bmm1_scale=shape.head_dim ** -0.5, bmm2_scale=1.0, out=output, kv_layout='HND')
        return call

    def planned(self, torch, flashinfer, cache, workspace, output):
        shape = cache.shape

        def starts(counts):
            return torch.tensor([0] + counts, dtype=torch.int32).cumsum(0, dtype=torch.int32).cuda()
        lasts = torch.tensor([(context - 1) % shape.page + 1 for context, _ in shape.requests],
                             dtype=torch.int32, device='cuda')
        where = (starts([len(pages) for pages in cache.pages]), cache.order, lasts)
        types = {'q_data_type': cache.q.dtype, 'kv_data_type': cache.k.dtype}
        sizes = (shape.q_heads, shape.kv_heads, shape.head_dim, shape.page)
        if shape.op == 'decode':
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
                workspace, 'HND', use_tensor_cores=True, backend=self.kind)
            wrapper.plan(*where, *sizes, **types)
        else:
            wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
                workspace, 'HND', backend=self.kind)
            wrapper.plan(starts([new for _, new in shape.requests]), *where, *sizes, causal=True,
                         **types)

        def call(index):
            pages = cache.k[index % cache.num_sets], cache.v[index % cache.num_sets]
            return wrapper.run(cache.q, pages, out=output)
        return call

    def rows_first(self, cache, output):
        return output
