#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program that runs with more rights than its user takes nothing from its environment: no folder, no
feature, and above all nothing that would be loaded or run with those rights.

use: check_set_uid.py FTJIT

Only root can make such a program; exits with 77 for others, and where none can be made. Prints TAP.
"""

import os
import shutil
import subprocess
import sys
import tempfile

NOBODY, OWNER = 65534, 12345


def skip(reason):
    print(f'1..0 # SKIP {reason}')
    sys.exit(77)


def plant(work, name):
    """A program that says so when it is run."""
    path = os.path.join(work, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write('#!/bin/sh\necho planted\n')
    os.chmod(path, 0o755)
    return path


def copy_with_rights(work, program):
    copy = os.path.join(work, 'ftjit')
    shutil.copy(program, copy)
    os.chown(copy, OWNER, OWNER)
    os.chmod(copy, 0o4755)
    return copy


def complaints(program, work):
    """(case, what is wrong with it or None) of each case."""
    planted = plant(work, 'c++')
    environment = {
        'FTJIT_CACHE_DIR': work, 'HOME': work, 'PATH': work, 'FTJIT_CUDA_DRIVER': planted,
        'FTJIT_NVRTC': planted, 'FTJIT_CXX': planted, 'FTJIT_FEATURES': 'planted',
        'FTJIT_SEALED': 'planted', 'FTJIT_COMPILE': 'planted', 'FTJIT_COMPILE_TIMEOUT': 'planted',
        'FTJIT_CACHE_PATH': planted, 'FTJIT_CACHE_OWNERS': 'planted', 'LC_ALL': 'C'}

    def run(*arguments):
        return subprocess.run([program, *arguments], user=NOBODY, capture_output=True, text=True,
                              env=environment, check=False)
    cache = run('cache', 'path')
    if cache.returncode == 0 and os.statvfs(work).f_flag & os.ST_NOSUID:
        skip('the folder for temporaries is mounted nosuid')
    text = cache.stdout + cache.stderr
    yield 'no folder', text if cache.returncode != 1 or 'all unset' not in text else None
    for case, arguments in (('no C++ compiler', ('info', '--device', 'cpu')),
                            ('no driver', ('info',)), ('no NVRTC', ('source', '--op', 'merge'))):
        done = run(*arguments)
        text = done.stdout + done.stderr
        # An NVRTC without a number in its name is called unversioned.
        is_wrong = 'planted' in text or planted in text or 'unversioned' in text
        yield case, text if is_wrong or not text else None


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if os.geteuid() != 0:
        skip('only root can make a set-user-id program')
    with tempfile.TemporaryDirectory(prefix='ftjit-set-uid-') as work:
        os.chmod(work, 0o755)
        rows = list(complaints(copy_with_rights(work, os.path.abspath(sys.argv[1])), work))
    print(f'1..{len(rows)}')
    for number, (case, wrong) in enumerate(rows, 1):
        print(f'{"not ok" if wrong else "ok"} {number} - {case} of the environment')
        for line in (wrong or '').splitlines():
            print('# ' + line)
    return 1 if any(wrong for _, wrong in rows) else 0


if __name__ == '__main__':
    sys.exit(main())
