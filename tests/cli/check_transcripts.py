#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command's output, word for word.

use: check_transcripts.py [--update] FTJIT FAKE_CUDA FAKE_NVRTC [NAME...]

Each NAME.exact beside this script is a transcript: a line `$ ftjit ...` (variables may stand before
the command), then what it printed, then its exit code in brackets. Lines of standard error start
with "! ". Times, keys, versions and paths, which differ from machine to machine, are masked. A
transcript has a cache folder of its own. --update writes what was seen into the transcripts, to be
reviewed as a diff. Prints TAP.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 240

# What may differ, and what stands for it.
MASKS = (
    (r'^ftjit \d+\.\d+\.\d+$', 'ftjit <version>'),
    (r'^(\s*"version":\s*)"[^"]*"', r'\1"<version>"'),
    (r'^(device|memory|compiler|compiler path|cache|driver)(  +).*$', r'\1\2<here>'),
    (r'^(// (?:compiler|key) +).*$', r'\1<here>'),
    (r'^(// options +)-std=\S+ -O.*$', r'\1<of the host compiler>'),
    # Tuned numbers are tests/golden's to watch.
    (r'^(    static constexpr int \w+ = )\d+;$', r'\1<n>;'),
    (r'^.*: (read ceiling) .* GB/s, (copy ceiling) .*$', r'<device>: \1 <n> GB/s, \2 <n> GB/s'),
    (r'^((?:decode|store|extend) +\S+ +\S+ +\S+ +\d+ +\S+ +\w+) .* (ok|FAILED), .*$', r'\1 <times> \2'),
    (r'^(layer|\s+\d+  \S+ +\d+)  .*$', r'\1 <errors>'),
    (r' in \d+\.\d s \(\d+\.\d s of CPU\)$', ' in <n> s (<n> s of CPU)'),
    (r'\d+ passed, 0 failed, \d+ skipped in .* s$', '<n> passed, 0 failed, <n> skipped'),
)


def masked(line):
    for pattern, stand_in in MASKS:
        line = re.sub(pattern, stand_in, line)
    return line.rstrip()


def run(command, program, fakes, cache):
    """What a transcript shows after the command."""
    words = shlex.split(command)
    environment = {key: value for key, value in os.environ.items() if not key.startswith('FTJIT_')}
    environment['FTJIT_CACHE_DIR'] = cache
    environment['FTJIT_LOCK_DIR'] = '/dev/null'  # no waiting for what other tests compile
    while '=' in words[0]:
        name, value = words.pop(0).split('=', 1)
        environment[name] = value.format(here=HERE, **fakes)
    arguments = [program] + [word.format(here=HERE, **fakes) for word in words[1:]]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment,
                          timeout=SECONDS, check=False)
    lines = [masked(line) for line in done.stdout.splitlines()]
    lines += ['! ' + masked(line) for line in done.stderr.splitlines()]
    shown = '\n'.join(lines).replace(HERE, '<here>').replace(cache, '<cache>')
    for name, path in fakes.items():
        shown = shown.replace(path, f'<{name}>')
    return [line for line in shown.split('\n') if shown] + [f'[{done.returncode}]']


def parse(text):
    """[(command or None, lines)]: what stands before the first command belongs to None."""
    parts = [(None, [])]
    for line in text.splitlines():
        if line.startswith('$ '):
            parts.append((line[2:], []))
        else:
            parts[-1][1].append(line)
    return parts


def without_blank_end(lines):
    lines = list(lines)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def check(path, program, fakes, update, number):
    """Run one transcript; how many commands were checked, and how many differ."""
    with open(path, encoding='utf-8') as file:
        parts = parse(file.read())
    written, failed = [*parts[0][1]], 0
    with tempfile.TemporaryDirectory(prefix='ftjit-cli-') as cache:
        for command, expected in parts[1:]:
            seen = run(command, program, fakes, cache)
            written += ['$ ' + command, *seen, '']
            number += 1
            is_same = update or seen == without_blank_end(expected)
            failed += not is_same
            print(f'{"ok" if is_same else "not ok"} {number} - {os.path.basename(path)}: {command}',
                  flush=True)
            if not is_same:
                for line in without_blank_end(expected):
                    print('#  -' + line)
                for line in seen:
                    print('#  +' + line)
    if update:
        with open(path, 'w', encoding='utf-8') as file:
            file.write('\n'.join(without_blank_end(written)) + '\n')
    return number, failed


def main(arguments):
    update = '--update' in arguments
    arguments = [argument for argument in arguments if argument != '--update']
    if len(arguments) < 3:
        sys.exit(__doc__)
    program, fake_cuda, fake_nvrtc = map(os.path.abspath, arguments[:3])
    fakes = {'fake_cuda': fake_cuda, 'fake_nvrtc': fake_nvrtc}
    names = arguments[3:] or sorted(name[:-len('.exact')] for name in os.listdir(HERE)
                                    if name.endswith('.exact'))
    number = failed = 0
    for name in names:
        number, more = check(os.path.join(HERE, name + '.exact'), program, fakes, update, number)
        failed += more
    print(f'1..{number}')
    return 1 if failed or not number else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
