#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sum up the logs Meson left of one or more runs: the line that closes ./dev test.

Arguments: base names of logs, "build/meson-logs/testlog". A log that is missing counts as one
failure: its run never came to an end. Exits 1 when anything failed.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree

GOOD = ('OK', 'EXPECTEDFAIL')


def subtests(base):
    """By Meson's test name: (passed, failed, skipped) of the tests that print TAP."""
    counted = {}
    for suite in ElementTree.parse(base + '.junit.xml').getroot().iter('testsuite'):
        _, separator, name = suite.get('name').partition('.')
        if not separator:
            continue
        cases = suite.findall('testcase')
        failed = sum(1 for case in cases
                     if case.find('failure') is not None or case.find('error') is not None)
        skipped = sum(1 for case in cases if case.find('skipped') is not None)
        counted[name] = (len(cases) - failed - skipped, failed, skipped)
    return counted


def count(base):
    """(passed, failed, skipped) of one run, and what failed, for people."""
    totals, failures = [0, 0, 0], []
    by_name = subtests(base)
    with open(base + '.json', encoding='utf-8') as log:
        runs = [json.loads(line) for line in log if line.strip()]
    for run in runs:
        good, skip = run['result'] in GOOD, run['result'] == 'SKIP'
        alone = (int(good), int(not good and not skip), int(skip))
        passed, failed, skipped = by_name.get(run['name'], alone)
        # A program may fail as a whole after its last subtest passed: a crash, a leak.
        failed = failed if good or skip else max(failed, 1)
        if failed:
            failures.append(f'{run["name"]}: {run["result"].lower()}')
        totals = [total + more for total, more in zip(totals, (passed, failed, skipped))]
    return totals, failures


def main():
    totals = [0, 0, 0]
    for base in sys.argv[1:]:
        try:
            run, failures = count(base)
        except (OSError, ElementTree.ParseError, ValueError) as error:
            run, failures = [0, 1, 0], [f'no log of this run: {error}']
        for failure in failures:
            print(f'FAILED {base}: {failure}')
        totals = [total + more for total, more in zip(totals, run)]
    passed, failed, skipped = totals
    print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main())
