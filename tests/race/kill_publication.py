#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kill a process at every system call of a publication: the next one is right, and leaves an entry.

   kill_publication.py PUBLISH_ONCE

Needs strace, and the right to trace; exits with 77 where there is none.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MOST_SECONDS = 4  # of the run after: less than anybody waits for a lock


def environment(folder):
    return dict(os.environ, FTJIT_LOCK_DIR=os.path.join(folder, 'locks'), LC_ALL='C')


def run(command, folder):
    return subprocess.run(command, env=environment(folder), capture_output=True, text=True,
                          check=False, timeout=60)


def skip(reason):
    print(f'skipped: {reason}')
    sys.exit(77)


def traced_calls(program):
    """(name, how many calls of that name came before it, itself included) between the marks."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, 'log')
        done = run(['strace', '-o', log, program, os.path.join(folder, 'cache')], folder)
        if done.returncode != 0:
            skip(f'strace cannot trace here: {done.stderr.strip()}')
        with open(log, encoding='utf-8', errors='replace') as lines:
            names = [match.group(1) for match in (re.match(r'(\w+)\(', line) for line in lines)
                     if match]
    marks = [index for index, name in enumerate(names) if name == 'getppid']
    assert len(marks) == 2, names
    return [(names[index], names[:index + 1].count(names[index]))
            for index in range(marks[0] + 1, marks[1] + 1)]


def files(folder, ending):
    return [name for _, _, names in os.walk(folder) for name in names if name.endswith(ending)]


def complaint(program, name, count):
    """What is wrong after a kill at one system call; None when all is right."""
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, 'cache')
        killed = run(['strace', '-o', os.devnull, '-e', f'trace={name}',
                      '-e', f'inject={name}:signal=KILL:when={count}', program, cache], folder)
        if killed.returncode not in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return f'was not killed, but ended with {killed.returncode}: {killed.stderr}'
        begin = time.monotonic()
        after = run([program, cache], folder)
        seconds = time.monotonic() - begin
        if after.returncode != 0 or after.stdout not in ('built\n', 'found\n'):
            return f'the next run ended with {after.returncode}: {after.stdout}{after.stderr}'
        if seconds > MOST_SECONDS:
            return f'the next run waited for {seconds:.1f} s'
        again = run([program, cache], folder)
        if again.returncode != 0 or again.stdout != 'found\n':
            return f'no entry was left: {again.stdout}{again.stderr}'
        if len(files(cache, '.ftk')) != 1 or len(files(cache, '.tmp')) > 1:
            return f'files were left: {files(cache, "")}'
    return None


def main():
    program = sys.argv[1]
    if not shutil.which('strace'):
        skip('no strace')
    calls = traced_calls(program)
    wrong = [(name, count, said) for name, count in calls
             for said in (complaint(program, name, count),) if said]
    for name, count, said in wrong:
        print(f'killed at {name}, call {count} of that name: {said}')
    print(f'{len(calls)} system calls of a publication, killed at each: {len(wrong)} went wrong')
    return 1 if wrong or not calls else 0


if __name__ == '__main__':
    sys.exit(main())
