#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tests/on_gpu.sh leaves: the record of a round, and the bench's results.

  gpu_record.py shards WORK NUM REPORT      sum up the shards of the check harness; prints
                                            "passed failed skipped", writes what failed to REPORT
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


def shard(base):
    """(passed, failed, skipped) and what to report of one shard. One that did not end as it should
    counts as one failure more, beside the rows it had printed by then."""
    text, code = read_text(base + '.txt'), read_text(base + '.rc').strip()
    failures = re.findall(r'^FAILED .*(?:\n  .*)?', text, re.M)
    last = re.search(r'^(\d+) passed, (\d+) failed, (\d+) skipped in', text, re.M)
    if last and (code == '0' or failures):
        return [int(count) for count in last.groups()], failures
    failures.append(f'{os.path.basename(base)} ended with {code}:\n{read_text(base + ".err")[-1500:]}')
    return [len(re.findall(f'^{word} ', text, re.M)) for word in ('passed', 'FAILED', 'skipped')], \
        failures


def shards(work, num, report_path):
    totals, report = [0, 0, 0], []
    for index in range(int(num)):
        counts, failures = shard(os.path.join(work, f'shard_{index}'))
        counts[1] = max(counts[1], len(failures))
        totals = [total + count for total, count in zip(totals, counts)]
        report += failures
    passed, failed, skipped = totals
    with open(report_path, 'w', encoding='utf-8') as file:
        file.write(f'{passed} passed, {failed} failed, {skipped} skipped\n')
        file.write('\n'.join(report) + '\n')
    print(passed, failed, skipped)
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


def record(path, trees_path, info_path, driver_path, suites_path):
    trees = dict(line.split() for line in read_text(trees_path).splitlines())
    info = read_json(info_path)
    suites = []
    for line in read_text(suites_path).splitlines():
        name, passed, failed, skipped, seconds = line.split()
        suites.append({'name': name, 'passed': int(passed), 'failed': int(failed),
                       'skipped': int(skipped), 'seconds': int(seconds)})
    old = read_json(path) if os.path.exists(path) else {}
    driver = f'{read_text(driver_path).strip()} ({info["driver"]})'.strip()
    new = merged(old, trees, info['gpu'], driver, suites)
    write_json(path, new)
    for suite in new['suites']:
        print(f'{suite["name"]}: {suite["passed"]} passed, {suite["failed"]} failed, '
              f'{suite["skipped"]} skipped')
    return 1 if any(suite['failed'] for suite in suites) or not suites else 0


COMMANDS = {'shards': shards, 'results': results, 'record': record}

if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
