#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write docs/performance.md and its plots from the runs in bench/results: figures come from nowhere
else.

use: bench/make_page.py [--check]

--check writes nothing; it fails when what is there is not what would be written.
"""

import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import page_plots
from page_rows import baseline, cases_of, fixed, named, ratio

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = """# How fast it is

Made by `bench/make_page.py` from `bench/results`. Every row was checked before and after its timing:
decode and extend against the device's own fp32 oracle, store against the reference codec. Times are
medians on a card that has *rested*, and on one that has worked without a pause for half a second
(*sustained*), each with the mean SM clock while the kernels ran ([how](measuring.md)). GB/s counts the cache's own bytes, scales included (a store: read and written); share is
of the read (a store: copy) ceiling of the same run; TFLOP/s counts the keys that each query sees.
Peers ran on the same card right after, on the same shapes, their planning and compiling outside the
timing; torch has its keys in contiguous memory, FlashInfer in shuffled pages.
"""


def markdown_table(titles, lines):
    yield '| ' + ' | '.join(titles) + ' |'
    yield '| ' + ' | '.join('---' for _ in titles) + ' |'
    for line in lines:
        yield '| ' + ' | '.join(line) + ' |'


def check_of(row):
    check = row['check']
    if not check['ok']:
        return 'FAILED'
    return 'ok' if row['op'] == 'store' else f"{check['error']:.1e}"


def peers_of(case, digits):
    return ', '.join(f'{name} {value:.{digits}f}' for name, value in case.peers.items())


def memory_table(cases):
    """Of decode and store."""
    titles = ('case', 'format', 'order', 'page', 'us', 'GB/s', 'share', 'MHz', 'x 16-bit',
              'sustained us', 'share', 'MHz', 'x 16-bit', 'error', 'kernel', 'peers, us')
    lines = []
    for case in cases:
        row, base = case.row, baseline(cases, case)
        line = [named(row), row['format'], row['order'], str(row['page'])]
        for state in ('rested', 'sustained'):
            us = case.value(state, 'us')
            line.append(fixed(us, 1))
            if state == 'rested':
                line.append(fixed(case.value(state, 'gbs')))
            line += [fixed(case.value(state, 'ceiling_share'), 3),
                     fixed(case.value(state, 'clock_mhz')),
                     ratio(base.value(state, 'us') if base else None, us)]
        lines.append(line + [check_of(row), row.get('variant', ''), peers_of(case, 1)])
    return markdown_table(titles, lines)


def extend_table(cases):
    titles = ('case', 'format', 'new keys', 'us', 'TFLOP/s', 'MHz', 'x 16-bit', 'x cuDNN',
              'sustained TFLOP/s', 'MHz', 'x 16-bit', 'x cuDNN', 'error', 'kernel',
              'peers, TFLOP/s')
    lines = []
    for case in cases:
        row, base = case.row, baseline(cases, case)
        line = [named(row), row['format'], row['keys'], fixed(case.value('rested', 'us'), 1)]
        for state in ('rested', 'sustained'):
            tflops = case.value(state, 'tflops')
            line += [fixed(tflops, 1), fixed(case.value(state, 'clock_mhz')),
                     ratio(tflops, base.value(state, 'tflops') if base else None),
                     ratio(tflops, case.value(state, 'peer_cudnn_tflops'))]
        lines.append(line + [check_of(row), row['variant'], peers_of(case, 0)])
    return markdown_table(titles, lines)


def peers_table(run):
    titles = ('peer', 'op', 'shape', 'format', 'state', 'us', 'GB/s or TFLOP/s', 'MHz', 'error')
    return markdown_table(titles, [
        [row['peer'], row['op'], row['shape'], row['format'], row['state'], fixed(row['us'], 1),
         fixed(row.get('gbs', row.get('tflops'))), fixed(row['clock_mhz']), f"{row['error']:.1e}"]
        for row in run['peers']])


# What should cost the same for each byte (decode) or operation (extend).
COMPARED = (
    ('1x16k-of-8m', '1x16k'), ('1x128k+31x4k', '32x8064'), ('1x16k+15x64', '16x1084'), ('8k+63x128', '8k'),
    ('16k-by-1k', '16k'), ('16k-by-1001', '16k'), ('16k-by-4k', '16k'),
    ('window-2k-of-128k', 'window-2k-of-8k'),
)


def cost(row):
    """Of a byte, or of an operation, up to a factor."""
    return 1 / row.get('gbs', row.get('tflops'))


def compared_lines(cases):
    plain = {(case.row.get('shape'), case.row['format'], case.row.get('keys')): case.row
             for case in cases if 'features' not in case.row}
    for one, other in COMPARED:
        parts = []
        for (shape, form, keys), row in plain.items():
            like = plain.get((other, form, keys))
            if shape == one and like:
                where = ', keys beside,' if keys == 'beside' else ''
                parts.append(f'{form}{where} {ratio(cost(row), cost(like), 3)}')
        if parts:
            what = 'byte' if cases[0].row['op'] == 'decode' else 'operation'
            yield f'\nTime for each {what} of {one}, over that of {other}: {", ".join(parts)}.'


def plots(run):
    """(name, what it shows, SVG) of the plots that a run has rows for."""
    cases = cases_of([row for row in run['rows'] if 'features' not in row])
    decodes = [case for case in cases if case.row['op'] == 'decode' and 'shape' in case.row]
    series, shares, speeds = {}, {}, {}
    for case in decodes:
        row, base = case.row, baseline(cases, case)
        is_plain = row['order'] == 'packed' and row['page'] == 64 and 'window' not in row
        if (row['head_dim'], row['q_heads'], row['kv_heads']) != (128, 32, 8) or not is_plain:
            continue
        if row['batch'] == 1 and 'pool_sets' not in row:
            series.setdefault(row['format'], []).append((row['context'], row['us']))
        if row['batch'] * row['context'] >= 131072 and 'requests' not in row:
            shares.setdefault(row['shape'], {})[row['format']] = row['ceiling_share']
            if base and base is not case:
                speeds.setdefault(row['shape'], {})[row['format']] = base.row['us'] / row['us']
    if any(len(points) > 2 for points in series.values()):
        yield ('context', 'Time of a decode against the context',
               page_plots.lines('Decode of one request, D128, 32/8 heads', 'context', 'us', series))
    if shares:
        yield ('share', 'Share of the read ceiling',
               page_plots.bars('Decode', 'share of the read ceiling of the same run', shares, 1))
    if speeds:
        yield ('speedup', 'Speed-up over our own 16 bits',
               page_plots.bars('Decode', 'times as fast as our own 16-bit cache', speeds))
    yield from extend_plots(cases)


def extend_plots(cases):
    for state in ('rested', 'sustained'):
        groups = {}
        for case in cases:
            row = case.states.get(state)
            if not row or row['op'] != 'extend' or row['keys'] != 'cache' or 'window' in row:
                continue
            group = groups.setdefault(row['shape'], {})
            group[row['format']] = row['tflops']
        for case in cases:
            row = case.states.get(state)
            for name in ('cudnn', 'flash', 'fa2', 'fa3'):
                theirs = row and row.get(f'peer_{name}_tflops')
                if theirs and row['shape'] in groups:
                    groups[row['shape']][name] = theirs
        if groups:
            yield (f'extend-{state}', f'Extend, {state}',
                   page_plots.bars(f'Extend, causal, {state}', 'TFLOP/s', groups))


def page(run, stem, drawn):
    yield f"\n## {run['gpu']}, driver {run['driver']}, {run['date']}, commit {run['commit']}\n"
    yield (f"Read ceiling {run['read_ceiling_gbs']:.0f} GB/s, copy ceiling "
           f"{run['copy_ceiling_gbs']:.0f} GB/s.")
    for name, title, _ in drawn:
        yield f'\n![{title}](plots/{stem}-{name}.svg)'
    for op, table in (('decode', memory_table), ('extend', extend_table), ('store', memory_table)):
        cases = cases_of([row for row in run['rows'] if row['op'] == op])
        if cases:
            yield f'\n### {op}\n'
            yield from table(cases)
            yield from compared_lines(cases)
    if run.get('peers'):
        yield '\n### peers\n'
        if run.get('peers_run'):
            yield f'Timed on such a card beside an earlier run ({run["peers_run"]}), not this one.\n'
        yield from peers_table(run)
    for sentence in run.get('peers_skipped', []):
        yield f'\n{sentence}'


def files():
    """{path below docs: content} of all that the results make."""
    made, lines = {}, [HEAD]
    for path in sorted((ROOT / 'bench' / 'results').glob('*.json')):
        run = json.loads(path.read_text())
        drawn = list(plots(run))
        for name, _, svg in drawn:
            made[f'plots/{path.stem}-{name}.svg'] = svg
        lines += page(run, path.stem, drawn)
    made['performance.md'] = '\n'.join(lines).rstrip() + '\n'
    return made


def main(arguments):
    docs = ROOT / 'docs'
    made = files()
    old = {f'plots/{path.name}' for path in (docs / 'plots').glob('*.svg')} - set(made)
    if arguments == ['--check']:
        wrong = sorted(old) + [name for name, text in made.items()
                               if not (docs / name).exists() or (docs / name).read_text() != text]
        for name in wrong:
            print(f'docs/{name} is not what bench/make_page.py makes of bench/results; run it')
        return 1 if wrong else 0
    if arguments:
        print(__doc__)
        return 2
    for name in old:
        (docs / name).unlink()
    for name, text in made.items():
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(text)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
