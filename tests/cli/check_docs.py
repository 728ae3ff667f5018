#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the documents and the examples name is there: commands and their options, variables, files.

use: check_docs.py FTJIT ROOT

Looks at README.md, CHANGELOG.md, docs/, examples/deploy and the public headers. Prints TAP.
"""

import glob
import os
import re
import subprocess
import sys

FTJIT = ''
# Where a line, or a command after another, begins with it: in prose it is the library's name.
COMMAND = r'(?:^|[;&]|exec|RUN)\s*(?:[A-Z_]+=\S+\s+)*ftjit ([a-z]+)\b([^\n;&|#]*)'
FOLDERS = ('base', 'bench', 'cache', 'cli', 'codegen', 'docs', 'examples', 'include', 'runtime',
           'templates', 'tests')
IN_TEMPLATES = ('block', 'kernel', 'ptx')


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def documents():
    return ['README.md', 'CHANGELOG.md', *sorted(glob.glob('docs/*.md'))]


def code_of(path):
    """The parts of a document that are code: fenced blocks and spans; of other files, all of it."""
    text = read(path)
    if not path.endswith('.md'):
        return [text]
    fenced = re.findall(r'^```[^\n]*\n(.*?)^```', text, re.M | re.S)
    rest = re.sub(r'^```.*?^```', '', text, flags=re.M | re.S)
    return fenced + [' '.join(span.split()) for span in re.findall(r'`([^`]+)`', rest)]


def helps():
    """What each command has to say of itself."""
    def say(*arguments):
        return subprocess.run([FTJIT, *arguments], capture_output=True, text=True,
                              check=True).stdout
    listed = say('--help').split('\n\n')[2]  # after what it is and how it is used
    names = re.findall(r'^  ([a-z]+) ', listed, re.M)
    return {name: say(name, '--help') for name in names}


def commands(known):
    """`ftjit NAME --option`, wherever it stands as code."""
    found = 0
    for path in [*documents(), *sorted(glob.glob('examples/deploy/*'))]:
        for code in code_of(path):
            code = re.sub(r'\s*\\\n[#\s]*', ' ', code)
            for name, rest in re.findall(COMMAND, code, re.M):
                found += 1
                if name not in known:
                    yield f'{path}: `ftjit {name}` is no command'
                    continue
                for option in re.findall(r'(?:^|\s)(--?[a-z][a-z-]*)', rest):
                    if not re.search(rf'(?<![\w-]){option}(?![\w-])', known[name]):
                        yield f'{path}: `ftjit {name}` has no {option}'
    if found < 20:
        yield f'only {found} commands were found'


def links():
    for path in documents():
        for target in re.findall(r'\]\(([^)#:]+)(?:#[^)]*)?\)', read(path)):
            if not os.path.exists(os.path.join(os.path.dirname(path), target)):
                yield f'{path}: {target} is not there'


def files():
    """Paths below our folders that stand as code; a star is one of the shell's."""
    for path in documents():
        for code in code_of(path):
            for name in re.findall(r'(?<![\w/.$<-])[a-z]+/[\w./*-]*\w', code):
                top = name.split('/')[0]
                place = f'templates/{name}' if top in IN_TEMPLATES else name
                if top in FOLDERS + IN_TEMPLATES and not glob.glob(place) and \
                        not glob.glob(place + '*'):
                    yield f'{path}: {name} is not there'


def variables():
    table = set(re.findall(r'^\| `(FTJIT_\w+)`', read('docs/environment.md'), re.M))
    sources = [path for folder in ('base', 'codegen', 'cache', 'runtime', 'cli')
               for path in glob.glob(f'{folder}/**/*.c', recursive=True)]
    asked = {name for path in sources for name in re.findall(r'"(FTJIT_[A-Z0-9_]+)"', read(path))}
    of_tests = {name for path in [*glob.glob('tests/*.sh'), *glob.glob('bench/peers/*')]
                if os.path.isfile(path) for name in re.findall(r'\bFTJIT_[A-Z0-9_]+', read(path))}
    for name in sorted(table - asked):
        yield f'docs/environment.md: {name} is read by nobody'
    for name in sorted(asked - table):
        yield f'docs/environment.md: {name} is missing'
    for path in [*documents(), *glob.glob('include/ftjit/*.h'), *glob.glob('examples/deploy/*')]:
        for name in sorted(set(re.findall(r'\bFTJIT_[A-Z0-9_]+', read(path))) - table - of_tests):
            if not name.endswith('_H'):  # what guards a header
                yield f'{path}: {name} is in no table'


def names():
    """Words with an underscore that stand as code in a sentence: of C, or of a file."""
    paths = [path for folder in FOLDERS for path in glob.glob(f'{folder}/**/*', recursive=True)
             if os.path.isfile(path) and path.endswith(('.c', '.h', '.cuh', '.py', '.sh', '.build'))]
    known = {word for path in paths for word in re.findall(r'\w+', read(path))}
    known |= {os.path.basename(path).split('.')[0] for path in paths}
    for path in documents():
        spans = code_of(path)[len(re.findall(r'^```', read(path), re.M)) // 2:]
        for name in {word for span in spans for word in re.findall(r'\b[a-z]+_[a-z0-9_]+\b', span)}:
            if name not in known:
                yield f'{path}: nothing is called {name}'


def tests():
    built = ' '.join(read(path) for path in glob.glob('tests/**/meson.build', recursive=True))
    dev = read('dev')
    for path in documents():
        for code in code_of(path):
            for name in re.findall(r'--benchmark (\w+)', code):
                if f"benchmark('{name}'" not in built:
                    yield f'{path}: there is no benchmark {name}'
            for name in re.findall(r'\./dev ([a-z-]+)', code):
                if not re.search(rf'^{name}\) ', dev, re.M):
                    yield f'{path}: ./dev has no {name}'


def main():
    global FTJIT  # pylint: disable=global-statement
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    FTJIT = os.path.abspath(sys.argv[1])
    os.chdir(sys.argv[2])
    known = helps()
    rows = (('commands and options exist', list(commands(known)) if known else ['no commands']),
            ('links lead somewhere', list(links())),
            ('files that are named are there', list(files())),
            ('variables are those that are read', list(variables())),
            ('names are those of the sources', list(names())),
            ('tests and tools that are named are there', list(tests())))
    print(f'1..{len(rows)}')
    for number, (name, complaints) in enumerate(rows, 1):
        print(f'{"not ok" if complaints else "ok"} {number} - {name}')
        for complaint in complaints:
            print(f'# {complaint}')
    return 1 if any(complaints for _, complaints in rows) else 0


if __name__ == '__main__':
    sys.exit(main())
