#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long `ftjit warm` takes with the real NVRTC, cold and warm, and whether bundles agree.

use: warm_bars.py FTJIT

Bars: a model's whole set for one target within 3 s on 2 cores, counted as 6 s of CPU so that a busy
machine does not matter; 100 kernels that are there already within 50 ms, from the cache and from a
bundle; a bundle of all models for five targets the same bytes from two empty caches. Prints TAP;
skipped where there is no NVRTC.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

TARGETS = 'sm_80,sm_89,sm_90a,sm_100a,sm_120a'
DECODING = 'store,decode,merge'
MODELS = ('gpt-oss-20b', 'Llama-3.1-8B', 'Qwen3.5-35B-A3B', 'gemma-4-26B-A4B')
MAX_CPU_SECONDS = 6.0
MAX_HIT_SECONDS = 0.050


def warm(program, cache, *arguments, **environment):
    start = time.monotonic()
    done = subprocess.run([program, 'warm', '--json', '-j', '2', *arguments], capture_output=True,
                          text=True, check=False,
                          env={**os.environ, 'FTJIT_CACHE_DIR': cache, **environment})
    if done.returncode:
        print('# ' + done.stderr.replace('\n', '\n# '))
        return None
    return {**json.loads(done.stdout), 'wall': time.monotonic() - start}


def result(number, passed, text):
    print(f'{"ok" if passed else "not ok"} {number} - {text}', flush=True)
    return 0 if passed else 1


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    program = os.path.abspath(arguments[0])
    info = subprocess.run([program, 'source', '--json'], capture_output=True, text=True,
                          check=True).stdout
    if not json.loads(info)['compiler']:
        print('1..0 # SKIP there is no NVRTC')
        return 77
    failed = 0
    everything = ('--targets', TARGETS, '--preset', 'all')
    rows = [(model, ops) for model in MODELS for ops in (DECODING, DECODING + ',extend')]
    print(f'1..{len(rows) + 3}')
    with tempfile.TemporaryDirectory(prefix='ftjit-bars-') as work:
        for number, (model, ops) in enumerate(rows, 1):
            seen = warm(program, f'{work}/{number}', '--targets', 'sm_90a', '--model', model,
                        '--ops', ops)
            failed += result(number, seen and seen['cpu_seconds'] <= MAX_CPU_SECONDS,
                             f'{model} for sm_90a, {ops}, cold: ' + (
                                 f'{seen["kernels"]} kernels, {seen["cpu_seconds"]:.1f} s of CPU '
                                 f'(at most {MAX_CPU_SECONDS}), {seen["wall"]:.1f} s' if seen
                                 else 'failed'))
        number = len(rows) + 1
        bundles = [f'{work}/{i}.ftb' for i in (1, 2)]
        seen = [warm(program, f'{work}/all{i}', *everything, '--bundle', bundles[i])
                for i in (0, 1)]
        text = 'all models for five targets: '
        if all(seen):
            text += (f'{seen[0]["kernels"]} kernels, {os.path.getsize(bundles[0])} bytes, '
                     f'{seen[0]["cpu_seconds"]:.0f} s of CPU, the same bytes from a second cache')
        failed += result(number, all(seen) and seen[0]['bundle'] == {
            **seen[1]['bundle'], 'path': bundles[0]}, text)
        for more, (name, cache, path) in enumerate((('the cache', f'{work}/all0', ''),
                                                    ('a bundle', f'{work}/none', bundles[0])), 1):
            hits = [warm(program, cache, *everything, FTJIT_CACHE_PATH=path) for _ in range(5)]
            best = min((hit['seconds'] * 100 / hit['hit'] for hit in hits if hit and hit['hit']),
                       default=9)
            failed += result(number + more, best <= MAX_HIT_SECONDS,
                             f'100 kernels from {name}: {1e3 * best:.1f} ms (at most 50)')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
