#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/make_page.py: what the page says of a run whose figures are known.

usage: test_page.py BENCH_FOLDER
"""

import sys
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import make_page
import page_plots
from page_rows import cases_of

SVG = '{http://www.w3.org/2000/svg}'


def decode(context, form, us, state='rested', **changed):
    return {'op': 'decode', 'shape': f'1x{context}', 'format': form, 'head_dim': 128, 'q_heads': 32,
            'kv_heads': 8, 'batch': 1, 'context': context, 'page': 64, 'order': 'packed',
            'state': state, 'us': us, 'gbs': 4000.0, 'ceiling_share': 0.9, 'clock_mhz': 1800,
            'variant': 'attn_decode_sm90', 'check': {'ok': True, 'error': 0.0017, 'bound': 0.004},
            **changed}


def extend(form, tflops, state, **changed):
    row = decode(16384, form, 1e3, state, **{'op': 'extend', 'shape': '16k', 'new': 16384,
                                             'keys': 'cache', 'tflops': tflops, **changed})
    del row['gbs'], row['ceiling_share']
    return row


RUN = {
    'gpu': 'A GPU', 'driver': '1', 'date': 'today', 'commit': 'c0ffee', 'read_ceiling_gbs': 4500.0,
    'copy_ceiling_gbs': 4000.0,
    'rows': [decode(context, form, us) for context in (1024, 16384, 131072)
             for form, us in (('bf16', context / 1024), ('nvfp4', context / 2048))] + [
        decode(131072, 'bf16', 130.0, 'sustained', ceiling_share=0.875, clock_mhz=1700),
        extend('bf16', 700.0, 'rested', peer_cudnn_tflops=625.0),
        extend('bf16', 640.0, 'sustained', peer_cudnn_tflops=575.0),
        extend('nvfp4', 600.0, 'rested', peer_cudnn_tflops=625.0),
        extend('bf16', 350.0, 'rested', variant='attn_extend_sm80', features='cp_async'),
        extend('nvfp4', 300.0, 'rested', variant='attn_extend_sm80', features='cp_async'),
    ],
    'peers': [{'peer': 'cudnn', 'op': 'extend', 'shape': '16k', 'format': 'bf16', 'state': 'rested',
               'us': 3500.0, 'tflops': 625.0, 'clock_mhz': None, 'error': 0.002}],
    'peers_skipped': ['fa3 was not timed on extend 16k: it is not there.'],
}


def svg(text):
    return xml.etree.ElementTree.fromstring(text)


class Page(unittest.TestCase):
    def setUp(self):
        self.drawn = list(make_page.plots(RUN))
        self.lines = '\n'.join(make_page.page(RUN, 'gpu', self.drawn)).splitlines()

    def cells(self, *starts, kernel=''):
        """The cells of the one table line that begins with these and names the kernel."""
        begin = '| ' + ' | '.join(starts) + ' |'
        line, = [line for line in self.lines if line.startswith(begin) and kernel in line]
        return [cell.strip() for cell in line.strip('|').split('|')]

    def test_both_states_of_a_case_stand_in_one_line(self):
        cells = self.cells('1x131072: 1 x 131072, D128, 32/8', 'bf16')
        self.assertEqual(cells[4:12], ['128.0', '4000', '0.900', '1800', '1.00', '130.0', '0.875',
                                       '1700'])
        self.assertEqual(cells[13], '1.7e-03')

    def test_peers_of_another_run_are_said_to_be(self):
        said = 'beside an earlier run (yesterday, commit 1), not this one'
        self.assertFalse(any(said in line for line in self.lines))
        run = {**RUN, 'peers_run': 'yesterday, commit 1'}
        lines = list(make_page.page(run, 'gpu', self.drawn))
        self.assertTrue(any(said in line for line in lines))

    def test_formats_are_held_against_our_own_16_bits(self):
        cells = self.cells('1x1024: 1 x 1024, D128, 32/8', 'nvfp4')
        self.assertEqual(cells[8], '2.00')

    def test_extend_is_held_against_cudnn_of_the_same_state(self):
        cells = self.cells('16k: 1 x 16384 of 16384, D128, 32/8', 'bf16', kernel='sm90')
        self.assertEqual(cells[4:12], ['700.0', '1800', '1.00', '1.12', '640.0', '1800', '1.00',
                                       '1.11'])
        cells = self.cells('16k: 1 x 16384 of 16384, D128, 32/8', 'nvfp4', kernel='sm90')
        self.assertEqual(cells[6:11], ['0.86', '0.96', '', '', ''])
        self.assertEqual(cells[-1], 'cudnn 625')

    def test_a_device_with_less_is_held_against_itself_and_not_drawn(self):
        cells = self.cells('16k: 1 x 16384 of 16384, D128, 32/8', 'nvfp4', kernel='sm80')
        self.assertEqual(cells[4:8], ['300.0', '1800', '0.86', ''])
        drawn = {name: text for name, _, text in self.drawn}
        self.assertIn('16k, nvfp4: 600', drawn['extend-rested'])
        self.assertNotIn('16k, nvfp4: 300', drawn['extend-rested'])

    def test_what_should_cost_the_same_is_compared(self):
        cases = cases_of([extend('bf16', 600.0, 'rested', shape='8k'),
                          extend('bf16', 480.0, 'rested', shape='8k+63x128'),
                          extend('bf16', 100.0, 'rested', shape='8k+63x128', features='none')])
        self.assertEqual(list(make_page.compared_lines(cases)), [
            '\nTime for each operation of 8k+63x128, over that of 8k: bf16 1.250.'])
        cases = cases_of([decode(8064, 'fp8', 10.0, shape='32x8064', gbs=4000.0),
                          decode(1, 'fp8', 10.0, shape='1x128k+31x4k', gbs=3200.0)])
        self.assertEqual(list(make_page.compared_lines(cases)), [
            '\nTime for each byte of 1x128k+31x4k, over that of 32x8064: fp8 1.250.'])

    def test_peers_that_were_left_out_are_named(self):
        self.assertIn('fa3 was not timed on extend 16k: it is not there.', self.lines)
        self.assertEqual(self.cells('cudnn', 'extend', '16k')[5:], ['3500.0', '625', '', '2.0e-03'])

    def test_a_failed_check_is_seen(self):
        row = decode(1024, 'bf16', 1.0, check={'ok': False, 'error': 1.0, 'bound': 0.004})
        self.assertIn('| FAILED |', '\n'.join(make_page.memory_table(cases_of([row]))))

    def test_a_run_has_the_plots_that_it_has_rows_for(self):
        self.assertEqual([name for name, _, _ in self.drawn],
                         ['context', 'share', 'speedup', 'extend-rested', 'extend-sustained'])
        for name, title, text in self.drawn:
            self.assertIn(f'![{title}](plots/gpu-{name}.svg)', self.lines)
            self.assertEqual(svg(text).tag, SVG + 'svg')
        self.assertEqual(list(make_page.plots(dict(RUN, rows=[]))), [])


class Plots(unittest.TestCase):
    def test_bars_are_as_high_as_their_values(self):
        drawn = svg(page_plots.bars('t', 'y', {'a': {'bf16': 100.0, 'fp8': 50.0}}))
        bars = [rect for rect in drawn.iter(SVG + 'rect') if rect.find(SVG + 'title') is not None
                and rect.find(SVG + 'title').text.startswith('a, ')]
        heights = [float(rect.get('height')) for rect in bars]
        self.assertAlmostEqual(heights[0], 2 * heights[1], delta=0.2)

    def test_linear_growth_is_a_straight_line(self):
        points = [(1024 << i, 3.0 * 2 ** i) for i in range(0, 11, 2)]
        drawn = svg(page_plots.lines('t', 'x', 'y', {'bf16': points}))
        path = drawn.find(SVG + 'polyline').get('points')
        xy = [tuple(map(float, place.split(','))) for place in path.split()]
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(xy, xy[1:])]
        self.assertEqual(len(slopes), 5)
        for slope in slopes:
            self.assertAlmostEqual(slope, slopes[0], delta=0.01)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
