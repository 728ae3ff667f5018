#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tests/gpu_record.py makes of the check harness's processes: above all of one that was stopped.

usage: test_gpu_record.py TESTS_FOLDER
"""

import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv.pop(1))
import gpu_record

LIST = ''.join(f'row decode a {row}: some shape\n' for row in range(6)) + '6 rows\n'
ENDED = ('passed decode a 0 in 0.250 s: some shape\npassed decode a 2 in 2.000 s: some shape\n'
         '2 passed, 0 failed, 0 skipped in 2.3 s\n')
STOPPED = 'passed decode a 1 in 0.500 s: some shape\nskipped decode a 4 in 0.000 s: some shape: why\n'
WRONG = ('FAILED decode a 3 in 1.000 s: some shape: got 1\n  repeat it with: ftjit verify\n'
         '0 passed, 1 failed, 0 skipped in 1.0 s\n')


class Shards(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write('list', LIST)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), 'w', encoding='utf-8') as file:
            file.write(text)

    def read(self, name):
        return gpu_record.read_text(os.path.join(self.folder, name))

    def shard(self, index, text, code):
        self.write(f'shard_{index}.txt', text)
        self.write(f'shard_{index}.rc', f'{code}\n')
        self.write(f'shard_{index}.err', 'what was said')

    def summed(self, num):
        with open(os.path.join(self.folder, 'out'), 'w', encoding='utf-8') as out:
            before, sys.stdout = sys.stdout, out
            try:
                gpu_record.shards(self.folder, str(num))
            finally:
                sys.stdout = before
        return self.read('out').split()

    def test_a_stopped_process_fails_and_its_rows_are_named(self):
        self.shard(0, ENDED, 0)
        self.shard(1, STOPPED, 124)
        self.assertEqual(self.summed(2), ['3', '1', '1', '2'])
        report = self.read('report')
        self.assertIn('3 passed, 1 failed, 1 skipped, 2 not reached', report)
        self.assertIn('shard_1 ended with 124:\nwhat was said', report)
        self.assertEqual([line for line in report.splitlines() if 'not reached:' in line],
                         ['not reached: decode a 3', 'not reached: decode a 5'])

    def test_a_failed_row_is_a_failure_of_its_own(self):
        self.shard(0, ENDED, 0)
        self.shard(1, WRONG, 1)
        self.assertEqual(self.summed(2), ['2', '1', '0', '3'])
        self.assertIn('FAILED decode a 3 in 1.000 s: some shape: got 1\n  repeat it with',
                      self.read('report'))

    def test_times_are_by_process_by_test_and_longest_first(self):
        self.shard(0, ENDED, 0)
        self.shard(1, STOPPED, 124)
        self.summed(2)
        self.assertEqual(self.read('times').splitlines()[:5],
                         ['shard_0: 2 rows, 2.2 s, ended with 0',
                          'shard_1: 2 rows, 0.5 s, was stopped with 124',
                          'decode: 4 rows, 2.8 s', '2.000 s: decode a 2: some shape',
                          '0.500 s: decode a 1: some shape'])

    def test_the_record_has_what_was_not_reached(self):
        self.write('trees', 'templates 1\n')
        self.write('info', json.dumps({'driver': 'D', 'gpu': 'G'}))
        self.write('driver', '1.2')
        self.write('suites', 'check 3 1 1 60 2\ngpu 4 0 0 9\n')
        path = {name: os.path.join(self.folder, name)
                for name in ('record', 'trees', 'info', 'driver', 'suites')}
        self.assertEqual(gpu_record.record(*path.values()), 1)
        suites = {suite['name']: suite for suite in gpu_record.read_json(path['record'])['suites']}
        self.assertEqual(suites['check']['not_reached'], 2)
        self.assertNotIn('not_reached', suites['gpu'])


if __name__ == '__main__':
    unittest.main()
