#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time peers on the shapes of a document of `ftjit bench`, on the same machine right after it.

use: run_peers.py [--peers LIST] [--build] DOCUMENT

--peers LIST  of cudnn, flash (torch), fa2, xqa, fa3, fa2_fp8, xqa_fp8 (FlashInfer), with commas
              (default: cudnn,flash,fa2,xqa,xqa_fp8); fa3 takes minutes to compile
--build       only run each peer once per geometry, so that its kernels are compiled and kept

Writes into the document: "peers", their own rows, each with its error; and into every row of the
bench with the same shape and state peer_<name>_us (decode) or peer_<name>_tflops (extend). A peer
that is missing or fails is reported in one sentence, kept in "peers_skipped", and is no failure.
"""

import argparse
import json
import sys

from peer_case import Cache, error_of, shape_of, shapes_of
from peer_flashinfer import FlashInferPeer
from peer_timing import Clock, Task, time_states
from peer_torch import TorchPeer

PEERS = {name: TorchPeer(name) for name in ('cudnn', 'flash')}
PEERS |= {name: FlashInferPeer(name) for name in ('fa2', 'xqa', 'fa3', 'fa2_fp8', 'xqa_fp8')}
DEFAULT = 'cudnn,flash,fa2,xqa,xqa_fp8'


def sentence(error):
    """The first line of what went wrong, without its full stop."""
    if type(error).__name__ == 'MissingJITCacheError':
        return 'its kernel has not been compiled'
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f'{type(error).__name__}: {lines[0] if lines else ""}'[:200].rstrip(' .:')


def measure(torch, clock, peer, shape, states):
    """Rows of one peer on one shape: of its fastest form in each state. Without states the forms
    are only run."""
    torch.manual_seed(1)
    cache = Cache(torch, shape, getattr(torch, peer.value_type))
    best, failure = {}, None
    for call in peer.calls(torch, cache):
        try:
            task = Task(torch, clock, call, cache.num_calls)
            timed = time_states(task, states, rest_each=shape.op == 'extend')
            error = error_of(cache, peer.rows_first(cache, task.output)) if timed else 0
        except Exception as raised:  # one form of several
            failure = raised
            continue
        for state, (us, mhz) in timed.items():
            if state not in best or us < best[state]['us']:
                best[state] = row_of(peer, shape, state, us, mhz, error, task.graph is not None)
    if failure and not best:
        raise failure
    return list(best.values())


def row_of(peer, shape, state, us, mhz, error, in_graph):
    row = {
        'peer': peer.name,
        'op': shape.op,
        'shape': shape.name,
        'format': 'fp8' if peer.value_type.startswith('float8') else 'bf16',
        'state': state,
        'us': round(us, 3),
        'clock_mhz': round(mhz) or None,
        'error': float(f'{error:.3g}'),
        'in_graph': in_graph,
    }
    if shape.op == 'extend':
        row['tflops'] = float(f'{1e-6 * shape.flops / us:.6g}')
    else:
        value_bytes = 1 if row['format'] == 'fp8' else 2
        row['gbs'] = float(f'{1e-3 * shape.cache_bytes(value_bytes) / us:.6g}')
    return row


def merge(document, peer_rows, skipped):
    """Put the peers into a document, and beside the rows they compare with."""
    document['peers'] = peer_rows
    document['peers_skipped'] = skipped
    found = {(row['op'], row['shape'], row['state'], row['peer']): row for row in peer_rows}
    for row in document['rows']:
        for key in [key for key in row if key.startswith('peer_')]:
            del row[key]
        if not shape_of(row):
            continue
        for (op, shape, state, peer), theirs in found.items():
            if (op, shape, state) != (row['op'], row['shape'], row['state']):
                continue
            unit = 'tflops' if op == 'extend' else 'us'
            row[f'peer_{peer}_{unit}'] = theirs[unit]


def skipped_sentences(skipped):
    """One for each peer, operation and reason; `skipped` has (peer, shape, reason)."""
    names = {}
    for peer, shape, reason in skipped:
        names.setdefault((peer, shape.op, reason), []).append(shape.name)
    return [f'{peer} was not timed on {op} {", ".join(shapes)}: {reason}.'
            for (peer, op, reason), shapes in names.items()]


def run(names, document, only_build):
    """(rows, sentences about what was left out)."""
    import torch
    clock = Clock(torch)
    rows, skipped = [], []
    for name in names:
        peer = PEERS[name]
        broken = {}  # geometry: why
        for shape, states in shapes_of(document).items():
            geometry = (shape.op, shape.head_dim, shape.q_heads // shape.kv_heads, shape.page)
            reason = peer.refuses(shape) or broken.get(geometry)
            if reason is None:
                try:
                    made = measure(torch, clock, peer, shape, set() if only_build else states)
                    for row in made:
                        print(json.dumps(row), flush=True)
                    rows += made
                except Exception as error:  # whatever a peer does, the others go on
                    reason = broken[geometry] = sentence(error)
                torch.cuda.empty_cache()
            # That a decode kernel is for decode alone is no news.
            if reason and peer.op in (None, shape.op):
                skipped.append((name, shape, reason))
    return rows, skipped_sentences(skipped)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--peers', default=DEFAULT)
    parser.add_argument('--build', action='store_true')
    parser.add_argument('document')
    options = parser.parse_args()
    names = options.peers.split(',')
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        parser.error(f'--peers {unknown[0]} is not known; it is one of {", ".join(PEERS)}')

    with open(options.document, encoding='utf-8') as file:
        document = json.load(file)
    try:
        rows, skipped = run(names, document, options.build)
    except Exception as error:  # torch itself is missing, or there is no GPU
        rows, skipped = [], [f'No peer was timed: {sentence(error)}.']
    for text in skipped:
        print(text, file=sys.stderr)
    if not options.build:
        merge(document, rows, skipped)
        with open(options.document, 'w', encoding='utf-8') as file:
            json.dump(document, file, indent=1)
            file.write('\n')


if __name__ == '__main__':
    main()
