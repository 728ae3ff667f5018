#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/peers: which shapes of a document are timed, and where the figures go. Needs no torch.

usage: test_peers.py BENCH_PEERS_FOLDER
"""

import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import peer_case
import run_peers


def row(**changed):
    return {'op': 'decode', 'shape': '16x16k', 'format': 'bf16', 'head_dim': 128, 'q_heads': 32,
            'kv_heads': 8, 'batch': 16, 'context': 16384, 'page': 64, 'order': 'packed',
            'state': 'rested', 'us': 250.0, **changed}


PREFILL = {'op': 'extend', 'shape': '16k', 'batch': 1, 'new': 16384, 'keys': 'cache'}
RAGGED = {'op': 'extend', 'shape': 'ragged', 'batch': 3, 'context': 10, 'new': 4,
          'requests': [[1, 10, 4], [2, 3, 3]]}


class Shapes(unittest.TestCase):
    def test_rows_of_one_shape_are_timed_once_in_all_their_states(self):
        document = {'rows': [row(), row(format='fp8'), row(state='sustained'), row(order='nhd'),
                             row(op='store', shape='8k')]}
        (shape, states), = peer_case.shapes_of(document).items()
        self.assertEqual(shape.name, '16x16k')
        self.assertEqual(states, {'rested', 'sustained'})
        self.assertTrue(shape.is_even)

    def test_windows_and_chunks_are_left_out(self):
        self.assertIsNone(peer_case.shape_of(row(window=128)))
        self.assertIsNone(peer_case.shape_of(row(**PREFILL, chunk=1024)))

    def test_flops_and_bytes_are_counted_as_ours(self):
        shape = peer_case.shape_of(row(**RAGGED))
        self.assertFalse(shape.is_even)
        self.assertEqual(shape.requests, ((10, 4), (3, 3), (3, 3)))
        pairs = (7 + 8 + 9 + 10) + 2 * (1 + 2 + 3)
        self.assertEqual(shape.flops, 4 * 128 * 32 * pairs)
        self.assertEqual(peer_case.shape_of(row()).cache_bytes(2), 16 * 16384 * 8 * 2 * 128 * 2)

    def test_peers_refuse_what_they_cannot_do(self):
        ragged = peer_case.shape_of(row(**RAGGED))
        chunk = peer_case.shape_of(row(**dict(PREFILL, new=2048)))
        whole = peer_case.shape_of(row(**PREFILL))
        decode = peer_case.shape_of(row())
        refused = {name: [bool(peer.refuses(shape)) for shape in (ragged, chunk, whole, decode)]
                   for name, peer in run_peers.PEERS.items()}
        self.assertEqual(refused['cudnn'], [True, True, False, False])
        self.assertEqual(refused['flash'], [True, False, False, False])
        self.assertEqual(refused['fa2'], [False, False, False, False])
        self.assertEqual(refused['xqa'], [True, True, True, False])
        self.assertEqual(refused['fa3'], [False, False, False, True])


class Merging(unittest.TestCase):
    def setUp(self):
        self.peers = [
            {'peer': 'xqa', 'op': 'decode', 'shape': '16x16k', 'state': 'rested', 'us': 245.0},
            {'peer': 'cudnn', 'op': 'extend', 'shape': '16k', 'state': 'sustained', 'us': 3800.0,
             'tflops': 580.0},
        ]

    def test_figures_stand_beside_every_format_of_their_shape_and_state(self):
        document = {'rows': [row(), row(format='fp8'), row(state='sustained'),
                             row(**PREFILL), row(**PREFILL, state='sustained')]}
        run_peers.merge(document, self.peers, ['fa3 was not timed.'])
        added = [{key: value for key, value in one.items() if key.startswith('peer_')}
                 for one in document['rows']]
        self.assertEqual(added, [{'peer_xqa_us': 245.0}, {'peer_xqa_us': 245.0}, {}, {},
                                 {'peer_cudnn_tflops': 580.0}])
        self.assertEqual(document['peers'], self.peers)
        self.assertEqual(document['peers_skipped'], ['fa3 was not timed.'])

    def test_figures_of_a_run_before_do_not_stay(self):
        document = {'rows': [row(peer_fa2_us=1.0)]}
        run_peers.merge(document, self.peers, [])
        self.assertNotIn('peer_fa2_us', document['rows'][0])


class Running(unittest.TestCase):
    def test_a_failure_is_one_sentence(self):
        error = RuntimeError('\n  nvcc failed.\nlong log')
        self.assertEqual(run_peers.sentence(error), 'RuntimeError: nvcc failed')
        self.assertEqual(run_peers.sentence(KeyError()), 'KeyError')
        self.assertEqual(run_peers.sentence(ValueError('no such dtype.\nmore')),
                         'ValueError: no such dtype')


    def test_what_was_left_out_is_said_once_for_each_reason(self):
        shapes = [peer_case.shape_of(row(shape=name)) for name in ('1x1k', '8x1k', '16x16k')]
        skipped = [('fa2', shape, 'it is missing') for shape in shapes[:2]]
        skipped += [('fa2', shapes[2], 'it failed'), ('xqa', shapes[2], 'it is missing')]
        self.assertEqual(run_peers.skipped_sentences(skipped), [
            'fa2 was not timed on decode 1x1k, 8x1k: it is missing.',
            'fa2 was not timed on decode 16x16k: it failed.',
            'xqa was not timed on decode 16x16k: it is missing.'])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
