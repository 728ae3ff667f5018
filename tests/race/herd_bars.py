#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sixty-four processes on a cold cache, twenty rounds, with locks and without.

use: herd_bars.py RACE_FLIGHT FAKE_CUDA FAKE_NVRTC [LIBNVRTC]

Bars: every answer right, each kernel compiled once, nothing left behind; with a real NVRTC the cold
herd costs at most 1.3 times the CPU of the same herd on the warm cache and one process alone on a
cold one. Without locks every answer is right all the same. LIBNVRTC is looked for in the usual places
of toolkits; without one the CPU is not judged. Prints TAP. A minute or two on two cores.
"""

import glob
import subprocess
import sys

PROCESSES, ROUNDS = '64', '20'
PLACES = ('/usr/local/cuda/lib64', '/usr/local/cuda*/lib64', '/usr/local/cuda*/lib',
          '/usr/local/cuda*/targets/*/lib')


def find_nvrtc(named):
    found = named or [path for place in PLACES for path in glob.glob(place + '/libnvrtc.so.1?')]
    return found[0] if found else None


def main(arguments):
    if not 3 <= len(arguments) <= 4:
        sys.exit(__doc__)
    race, cuda, fake = arguments[:3]
    nvrtc = find_nvrtc(arguments[3:])
    rows = (('with locks, and what it costs', nvrtc, ()), ('with locks', fake, ()),
            ('without locks', fake, ('nolock',)))
    failed = 0
    print(f'1..{len(rows)}')
    for number, (name, library, more) in enumerate(rows, 1):
        if not library:
            print(f'ok {number} - {name} # SKIP there is no NVRTC')
            continue
        done = subprocess.run([race, cuda, library, PROCESSES, ROUNDS, *more], text=True,
                              capture_output=True, check=False)
        failed += done.returncode != 0
        print(f'{"not ok" if done.returncode else "ok"} {number} - {name}')
        for line in (done.stdout + done.stderr).splitlines():
            print('# ' + line, flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
