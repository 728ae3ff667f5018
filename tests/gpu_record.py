#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tests/on_gpu.sh leaves: the record of a round, and the bench's results.

  gpu_record.py shards WORK NUM             sum up the processes of the check harness; prints
                                            "passed failed skipped not_reached"; writes what failed
                                            to WORK/report, and where the time went to WORK/times
  gpu_record.py results FOLDER OUT DOCUMENT...
                                            join bench documents into FOLDER/<gpu>.json
  gpu_record.py record FILE TREES INFO DRIVER SUITES
                                            put suites into the record; exits 1 if any failed
"""

import json
import os
import re
import sys
import time


def read_json(path):
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def write_json(path, value):
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(value, file, indent=1)
        file.write('\n')


def read_text(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read()
    except OSError:
        return ''


ROW = re.compile(r'^(passed|FAILED|skipped) (\S+ \S+ \d+) in ([\d.]+) s: (.*)', re.M)


def rows_of(text):
    """By name, "decode attn_decode_sm90 12": (seconds, shape)."""
    return {name: (float(seconds), shape) for _, name, seconds, shape in ROW.findall(text)}


def shard(base):
    """(passed, failed, skipped), what to report, and how one shard ended. One that did not end as
    it should counts as one failure more, beside the rows it had printed by then."""
    text, code = read_text(base + '.txt'), read_text(base + '.rc').strip()
    failures = re.findall(r'^FAILED .*(?:\n  .*)?', text, re.M)
    last = re.search(r'^(\d+) passed, (\d+) failed, (\d+) skipped in', text, re.M)
    if last and (code == '0' or failures):
        return [int(count) for count in last.groups()], failures, f'ended with {code}'
    failures.append(f'{os.path.basename(base)} ended with {code}:\n{read_text(base + ".err")[-1500:]}')
    counts = [len(re.findall(f'^{word} ', text, re.M)) for word in ('passed', 'FAILED', 'skipped')]
    return counts, failures, f'was stopped with {code}'


def times_of(rows, ends):
    """Lines of where the time went: by process, by test, and the rows that took longest."""
    lines = [f'shard_{index}: {len(mine)} rows, {sum(seconds for seconds, _ in mine.values()):.1f} '
             f's, {end}' for index, (mine, end) in enumerate(ends)]
    tests = {}
    for name, (seconds, _) in rows.items():
        test = tests.setdefault(name.split()[0], [0, 0.0])
        test[0] += 1
        test[1] += seconds
    for test, (count, seconds) in sorted(tests.items(), key=lambda item: -item[1][1]):
        lines.append(f'{test}: {count} rows, {seconds:.1f} s')
    longest = sorted(rows.items(), key=lambda item: -item[1][0])[:10]
    return lines + [f'{seconds:.3f} s: {name}: {shape[:80]}'
                    for name, (seconds, shape) in longest]


def shards(work, num):
    totals, report, rows, ends = [0, 0, 0], [], {}, []
    for index in range(int(num)):
        base = os.path.join(work, f'shard_{index}')
        counts, failures, end = shard(base)
        counts[1] = max(counts[1], len(failures))
        totals = [total + count for total, count in zip(totals, counts)]
        report += failures
        ends.append((rows_of(read_text(base + '.txt')), end))
        rows.update(ends[-1][0])
    passed, failed, skipped = totals
    listed = re.findall(r'^row (\S+ \S+ \d+):', read_text(os.path.join(work, 'list')), re.M)
    missed = [name for name in listed if name not in rows]
    with open(os.path.join(work, 'report'), 'w', encoding='utf-8') as file:
        file.write(f'{passed} passed, {failed} failed, {skipped} skipped, '
                   f'{len(missed)} not reached\n')
        file.write(''.join(f'{line}\n' for line in report))
        file.write(''.join(f'not reached: {name}\n' for name in missed))
    with open(os.path.join(work, 'times'), 'w', encoding='utf-8') as file:
        file.write(''.join(f'{line}\n' for line in times_of(rows, ends)))
    print(passed, failed, skipped, len(missed))
    return 0


def results(folder, out, *documents):
    """One document: the head of the first bench, the rows of all."""
    runs = [read_json(path) for path in documents]
    joined = dict(runs[0], rows=[row for run in runs for row in run['rows']])
    name = '-'.join(joined['gpu'].lower().split()) + '.json'
    for place in (folder, out):
        write_json(os.path.join(place, name), joined)
    return 0


def merged(old, trees, gpu, driver, suites):
    """A record of the same trees on the same machine keeps the suites that were not run again."""
    same = old.get('trees') == trees and old.get('gpu') == gpu and old.get('driver') == driver
    kept = old.get('suites', []) if same else []
    again = {suite['name'] for suite in suites}
    return {
        'gpu': gpu,
        'driver': driver,
        'date': time.strftime('%Y-%m-%d', time.gmtime()),
        'trees': trees,
        'suites': [suite for suite in kept if suite['name'] not in again] + suites,
    }


# Of a line of a round's suites; the last is of the check harness alone.
COLUMNS = ('passed', 'failed', 'skipped', 'seconds', 'not_reached')


def record(path, trees_path, info_path, driver_path, suites_path):
    trees = dict(line.split() for line in read_text(trees_path).splitlines())
    info = read_json(info_path)
    suites = []
    for line in read_text(suites_path).splitlines():
        name, *numbers = line.split()
        suites.append({'name': name, **dict(zip(COLUMNS, map(int, numbers)))})
    old = read_json(path) if os.path.exists(path) else {}
    driver = f'{read_text(driver_path).strip()} ({info["driver"]})'.strip()
    new = merged(old, trees, info['gpu'], driver, suites)
    write_json(path, new)
    for suite in new['suites']:
        missed = suite.get('not_reached')
        print(f'{suite["name"]}: {suite["passed"]} passed, {suite["failed"]} failed, '
              f'{suite["skipped"]} skipped' + (f', {missed} not reached' if missed else ''))
    return 1 if any(suite['failed'] for suite in suites) or not suites else 0


COMMANDS = {'shards': shards, 'results': results, 'record': record}

if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
