#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fail every system call of a publication, with errors a file system has for it: the process goes on
and leaves nothing behind, and the next one publishes.

   fail_publication.py PUBLISH_ONCE

Needs strace, and the right to trace; exits with 77 where there is none.
"""

import os
import shutil
import sys
import tempfile

from kill_publication import files, run, skip, traced_calls

# What a full disk, a quota, a network, a read-only mount or a failing disk answers.
ERRORS = {
    'openat': ('EACCES', 'EROFS', 'ESTALE', 'ENOSPC', 'EDQUOT', 'EMFILE'),
    'open': ('EACCES', 'EROFS', 'ESTALE'),
    'mkdir': ('EROFS', 'ENOSPC', 'EDQUOT'),
    'mkdirat': ('EROFS', 'ENOSPC', 'EDQUOT'),
    'write': ('ENOSPC', 'EDQUOT', 'EIO', 'EINTR'),
    'pwrite64': ('ENOSPC', 'EDQUOT'),
    'ftruncate': ('EIO', 'EDQUOT'),
    'fdatasync': ('EIO', 'EDQUOT', 'ENOSPC'),
    'close': ('EIO', 'EDQUOT'),
    'rename': ('ESTALE', 'EDQUOT'),
    'renameat': ('ESTALE', 'EDQUOT', 'EXDEV'),
    'renameat2': ('ESTALE', 'EDQUOT', 'EXDEV'),
    'flock': ('ENOLCK', 'EOPNOTSUPP', 'EINTR'),
    'fstat': ('ESTALE', 'EIO'),
    'newfstatat': ('ESTALE', 'EACCES'),
    'pread64': ('ESTALE', 'EIO', 'EINTR'),
    'getdents64': ('ESTALE', 'EIO'),
    'getrandom': ('EAGAIN',),
}


def complaint(program, name, count, error):
    """What is wrong after a failure of one system call; None when all is right."""
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, 'cache')
        failed = run(['strace', '-o', os.devnull, '-e', f'trace={name}',
                      '-e', f'inject={name}:error={error}:when={count}', program, cache], folder)
        if failed.returncode not in (0, 1):
            return f'it ended with {failed.returncode}: {failed.stderr}'
        if files(cache, '.tmp'):
            return f'a temporary was left: {files(cache, ".tmp")}'
        after = run([program, cache], folder)
        if after.returncode != 0 or after.stdout not in ('built\n', 'found\n'):
            return f'the next run ended with {after.returncode}: {after.stdout}{after.stderr}'
        if len(files(cache, '.ftk')) != 1 or files(cache, '.tmp'):
            return f'files were left: {files(cache, "")}'
    return None


def main():
    program = sys.argv[1]
    if not shutil.which('strace'):
        skip('no strace')
    calls = [(name, count) for name, count in traced_calls(program) if name in ERRORS]
    # Errors take turns, so that each call fails once and each error comes up.
    cases = [(name, count, ERRORS[name][count % len(ERRORS[name])]) for name, count in calls]
    wrong = [(case, said) for case in cases for said in (complaint(program, *case),) if said]
    for (name, count, error), said in wrong:
        print(f'{error} from {name}, call {count} of that name: {said}')
    print(f'{len(cases)} failures of system calls of a publication: {len(wrong)} went wrong')
    return 1 if wrong or not cases else 0


if __name__ == '__main__':
    sys.exit(main())
