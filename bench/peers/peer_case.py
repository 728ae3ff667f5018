# SPDX-License-Identifier: MIT
"""What a peer is timed on: the shapes of a document of `ftjit bench`, on random tensors; and what
its answers are held against."""

import dataclasses

L2_BYTES = 60 << 20
MAX_SETS = 512
CALLS_PER_GRAPH = 20
CHECKED = {'decode': 4, 'extend': 64}


@dataclasses.dataclass(frozen=True)
class Shape:
    op: str
    name: str
    head_dim: int
    q_heads: int
    kv_heads: int
    page: int
    requests: tuple  # (context, new) of each

    @property
    def batch(self):
        return len(self.requests)

    @property
    def is_even(self):
        return len(set(self.requests)) == 1

    @property
    def flops(self):
        pairs = sum(new * context - new * (new - 1) // 2 for context, new in self.requests)
        return 4 * self.head_dim * self.q_heads * pairs

    def cache_bytes(self, value_bytes):
        tokens = sum(context for context, _ in self.requests)
        return 2 * value_bytes * tokens * self.kv_heads * self.head_dim


def shape_of(row):
    """The shape of a row, or None: of another operation, or one that no peer is asked for."""
    if row['op'] not in ('decode', 'extend') or row.get('window') or row.get('chunk'):
        return None
    groups = row.get('requests') or [[row['batch'], row['context'], row.get('new', 1)]]
    requests = tuple((context, new) for count, context, new in groups for _ in range(count))
    return Shape(row['op'], row['shape'], row['head_dim'], row['q_heads'], row['kv_heads'],
                 row['page'], requests)


def shapes_of(document):
    """{shape: states it was timed in}, in the document's order; packed rows alone, for no peer has
    that order and the shape is the same."""
    found = {}
    for row in document['rows']:
        shape = shape_of(row)
        if shape and row['order'] == 'packed':
            found.setdefault(shape, set()).add(row['state'])
    return found


class Cache:
    """Pages of random keys and values, [sets, pages of a set, kv_heads, page, head_dim]: every set
    has all requests' pages, shuffled alike, so that one plan serves them all."""

    def __init__(self, torch, shape, dtype):
        self.torch, self.shape = torch, shape
        value_bytes = torch.tensor([], dtype=dtype).element_size()
        wanted = 4 * L2_BYTES // shape.cache_bytes(value_bytes) + 1
        self.num_sets = 1 if shape.op == 'extend' else min(max(wanted, 2), MAX_SETS)
        pages = [-(-context // shape.page) for context, _ in shape.requests]
        self.order = torch.randperm(sum(pages), device='cuda', dtype=torch.int32)
        self.pages = self.order.split(pages)
        size = (self.num_sets, sum(pages), shape.kv_heads, shape.page, shape.head_dim)
        self.k, self.v = (self.random(size).to(dtype) for _ in range(2))
        queries = sum(new for _, new in shape.requests)
        self.q = self.random((queries, shape.q_heads, shape.head_dim))

    def random(self, size):
        return self.torch.randn(size, device='cuda', dtype=self.torch.bfloat16)

    @property
    def num_calls(self):
        if self.shape.op == 'extend':
            return 1
        return -(-CALLS_PER_GRAPH // self.num_sets) * self.num_sets

    def request(self, side, index, set_index=-1):
        """K or V of a request, [context, kv_heads, head_dim] fp32."""
        torch = self.torch
        pages = side[set_index].view(torch.uint8)[self.pages[index].long()].view(side.dtype)
        rows = pages.float().transpose(1, 2).flatten(0, 1)
        return rows[:self.shape.requests[index][0]]


def error_of(cache, output):
    """RMS over some queries of each one's error relative to its size, against fp64 on what the
    last set holds; as bench/bench_check.c has it."""
    torch, shape = cache.torch, cache.shape
    output = output.reshape(cache.q.shape)
    rows = [(request, context - new + i) for request, (context, new) in enumerate(shape.requests)
            for i in range(new)]
    count = min(CHECKED[shape.op], len(rows))
    total = 0.0
    for i in range(count):
        row = i * (len(rows) - 1) // max(count - 1, 1)
        request, position = rows[row]
        k, v = (cache.request(side, request)[:position + 1].double() for side in (cache.k, cache.v))
        q = cache.q[row].double().view(shape.kv_heads, -1, shape.head_dim)
        scores = torch.einsum('hgd,thd->hgt', q, k) * shape.head_dim ** -0.5
        want = torch.einsum('hgt,thd->hgd', scores.softmax(-1), v).flatten(0, 1)
        total += float((output[row].double() - want).square().sum() / want.square().sum())
    return (total / count) ** 0.5
