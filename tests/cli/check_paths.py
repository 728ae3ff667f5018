#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The paths of the command that no transcript takes, because what they print differs from run to run.

use: check_paths.py FTJIT FAKE_CUDA FAKE_NVRTC DATA

Looks at exit codes and at the form of what is printed; run with sanitizers it finds what these paths
leak. DATA is a folder of activations. Prints TAP.
"""

import json
import os
import subprocess
import sys
import tempfile

GPU = ('--device', '0')
CPU = ('--device', 'cpu')
GLM = ('--targets', 'sm_90a', '--model', 'GLM-4.7')


def damage(folder):
    """Flip a bit in every entry below a folder."""
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith('.ftk'):
                with open(os.path.join(parent, name), 'r+b') as file:
                    file.seek(-1, os.SEEK_END)
                    last = file.read(1)[0]
                    file.seek(-1, os.SEEK_END)
                    file.write(bytes([last ^ 1]))


class Cases:
    """Numbered runs of the command, in a folder of their own."""

    def __init__(self, program, cuda, nvrtc, work):
        self.program, self.work = program, work
        self.env = {**{key: value for key, value in os.environ.items()
                       if not key.startswith(('FTJIT_', 'FAKE_', 'XDG_'))},
                    'FTJIT_CUDA_DRIVER': cuda, 'FTJIT_NVRTC': nvrtc, 'FTJIT_LOCK_DIR': '/dev/null',
                    'FTJIT_CACHE_DIR': os.path.join(work, 'cache')}
        self.number = self.failed = 0

    def run(self, *arguments, code=0, says='', **environment):
        """One row: exit code, a word of what is said, JSON where it is asked for."""
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True,
                              env={**self.env, **environment}, stdin=subprocess.DEVNULL,
                              check=False, timeout=300)
        self.number += 1
        wrong = []
        if done.returncode != code:
            wrong.append(f'exit code {done.returncode}, not {code}')
        if says not in done.stdout + done.stderr:
            wrong.append(f'"{says}" is not said')
        document = None
        if '--json' in arguments and code != 2:
            try:
                document = json.loads(done.stdout)
            except ValueError as problem:
                wrong.append(f'no JSON: {problem}')
        self.failed += bool(wrong)
        print(f'{"not ok" if wrong else "ok"} {self.number} - {" ".join(arguments)}'
              .replace(self.work, '<work>'))
        for line in wrong + (done.stderr.splitlines() if wrong else []):
            print('# ' + line, flush=True)
        return document

    def run_in_terminal(self, *arguments, shows):
        """One row: what is drawn where standard error is a terminal."""
        self.number += 1
        row = f'{self.number} - in a terminal: {" ".join(arguments)}'
        try:
            ours, theirs = os.openpty()
        except OSError as problem:
            print(f'ok {row} # SKIP no terminal can be had here: {problem}')
            return
        with subprocess.Popen([self.program, *arguments], stdin=subprocess.DEVNULL,
                              env={**self.env, 'FAKE_NVRTC_DELAY_MS': '5'},
                              stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            drawn = b''
            try:
                while part := os.read(ours, 4096):
                    drawn += part
            except OSError:  # how a terminal ends
                pass
        os.close(ours)
        wrong = process.returncode != 0 or shows not in drawn.decode()
        self.failed += wrong
        print(f'{"not ok" if wrong else "ok"} {row}')


def take_all(cases, data):
    work = cases.work
    for device in (CPU, GPU):
        cases.run('info', *device, '--json')
        cases.run('info', *device, '--json', '--verbose')
    cases.run('source', '--json')
    cases.run('source', '--closure', '--json', '--op', 'store')

    cases.run('verify', *CPU, '--list', says='row codec_vectors')
    for more in ((), ('--json',), ('--verbose',)):
        cases.run('verify', *CPU, '--test', 'codec_vectors', '--row', '0', *more)
    cases.run('verify', *CPU, '--test', 'store', '--row', '1', '--seed', '3', '--shard', '0/2')
    deal = os.path.join(work, 'deal')
    for says in ('passed codec_vectors kv_store 3 in', '0 passed, 0 failed, 0 skipped'):
        cases.run('verify', *CPU, '--test', 'codec_vectors', '--verbose', '--deal', deal, says=says)
    cases.run('verify', *CPU, '--list', '--deal', os.path.join(work, 'nowhere', 'deal'))
    cases.run('verify', *CPU, '--deal', os.path.join(work, 'nowhere', 'deal'), code=1)
    cases.run('verify', *CPU, '--test', 'codec', '--row', '0', '--codec-values', '5000')
    cases.run('verify', *CPU, '--codec-values', '0', code=2, says='--codec-values 0')
    cases.run('verify', *CPU, '--input', data, says='0 failed')
    cases.run('verify', *CPU, '--input', data, '--json')
    cases.run('verify', *CPU, '--input', work, code=1)

    cases.run('bench', 'decode', '--list')
    for what in ('start', 'launch'):
        cases.run('bench', what, *CPU)
        cases.run('bench', what, *CPU, '--json')
    cases.run('bench', 'decode', *CPU, '--quick', '--json', '--out', os.path.join(work, 'b.json'),
              '--commit', 'none', '--seed', '5')
    cases.run('bench', 'store', *CPU, '--quick', '--head-dim', '64', '--batch', '2', '--context',
              '32')

    bundle = os.path.join(work, 'k.ftb')
    cases.run('warm', *GLM, '--ops', 'store,merge,decode,extend,generic', '--json', '--bundle',
              bundle)
    cases.run('warm', *GLM, '--ops', 'stroe', code=2, says='generic')
    cases.run_in_terminal('warm', '--targets', 'sm_80', '--preset', 'all', shows='s left')
    cases.run('warm', *GLM, '--dtype', 'fp16', '--order', 'packed', '--table', 'blocks', '--page',
              '64', '--tp', '2', '--kv-dtype', 'fp8', '-j', '3', '--shard', '1/2')
    cases.run('cache', 'ls', '--json')
    listed = cases.run('cache', 'ls', '--bundle', bundle, '--json')
    key = listed['entries'][0]['key'] if listed else ''
    cases.run('cache', 'show', key, '--json')
    cases.run('cache', 'show', key, '--log')
    cases.run('cache', 'show', key, '--code', os.path.join(work, 'code.bin'))
    cases.run('cache', 'show', key, '--code', '/nowhere/code.bin', code=1, says='/nowhere')
    cases.run('cache', 'show', key[:6], '--bundle', bundle)
    tiers = {'FTJIT_CACHE_PATH': f'{bundle}:{cases.env["FTJIT_CACHE_DIR"]}:/nowhere'}
    cases.run('cache', 'path', '--json', **tiers)
    cases.run('cache', 'verify', '--json')
    cases.run('cache', 'verify', bundle, '--json')
    cases.run('cache', 'gc', '--json')

    # What is damaged, what another compiler made, and what cannot be used.
    decode = ('bench', 'decode', *CPU, '--quick', '--kv-dtype', 'fp8', '--verbose')
    other = os.path.join(work, 'other')
    cases.run(*decode, says=' compiled ', FTJIT_CACHE_DIR=other)
    shared = {'FTJIT_CACHE_DIR': os.path.join(work, 'third'), 'FTJIT_CACHE_PATH': other}
    cases.run(*decode, FTJIT_CXX='/nowhere/c++', **shared)
    damage(other)
    cases.run(*decode, says='it is passed over', **shared)
    cases.run(*decode, says='it is removed and built again', FTJIT_CACHE_DIR=other)
    cases.run('warm', *GLM, code=1, says='there is no cache', FTJIT_CACHE_DIR='/dev/null')
    cases.run('cache', 'ls', code=1, FTJIT_CACHE_DIR='/dev/null')
    cases.run('cache', 'clear', '--json')


def main(arguments):
    if len(arguments) != 4:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix='ftjit-paths-') as work:
        cases = Cases(*map(os.path.abspath, arguments[:3]), work)
        take_all(cases, os.path.abspath(arguments[3]))
    print(f'1..{cases.number}')
    return 1 if cases.failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
