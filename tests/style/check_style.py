#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""House style, checked: what a reader may rely on in every file of the tree. Prints TAP."""

import os
import re
import subprocess
import sys

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80
MAX_SUBJECT_COLUMNS = 90
FIRST_CHECKED_COMMIT = 'ca339f067b81'
LONG_SUBJECT = '143e1014849a'  # seen too late, and history is not rewritten
C_LIKE = ('.c', '.h', '.cuh', '.cu', '.cpp')
COMMENTED = C_LIKE + ('.py', '.sh')
TEXT = COMMENTED + ('.md', '.build', '.txt', '.yml', '.exact', '.json')
# Written by a program of ours and reviewed as data, not as code.
GENERATED = re.compile(r'bench/results/|tests/golden/source/[^/]*\.(?:cu|txt)$|.*\.exact$')

# Who may include whom; a folder that is not named here is free. `templates` is closed.
ALLOWED = {
    'base': {'base', 'ftjit'},
    'codegen': {'codegen', 'base', 'ftjit'},
    'cache': {'cache', 'base', 'ftjit'},
    'runtime': {'runtime', 'codegen', 'cache', 'base', 'ftjit', 'templates'},
    'include': {'ftjit'},
    'templates': {'kernel', 'block', 'ptx'},
    'examples': {'ftjit'},
}


def git(*arguments):
    """Output of git as lines; none where this is no checkout or git is missing."""
    try:
        done = subprocess.run(('git',) + arguments, capture_output=True, text=True, check=False)
    except OSError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def tree_files():
    """Paths of the tree: what git tracks or would track, else every file outside build folders."""
    listed = git('ls-files', '--cached', '--others', '--exclude-standard')
    if listed:
        return sorted(path for path in set(listed)
                      if os.path.isfile(path) and not path.startswith('shared/'))
    found = []
    for folder, folders, names in os.walk('.'):
        folders[:] = [name for name in folders
                      if name not in ('.git', 'shared') and not name.startswith('build')
                      and not os.path.exists(os.path.join(folder, name, 'meson-private'))]
        found += [os.path.relpath(os.path.join(folder, name)) for name in names]
    return sorted(found)


def is_text(path):
    return path.endswith(TEXT) or os.path.basename(path) in ('dev', 'run')


def blank_out(text):
    """The same text with comments, strings and character constants blanked; lines keep their
    numbers."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda match: re.sub(r'[^\n]', ' ', match.group()), text)


def functions(text):
    """(first line, last line) of every function body's function, found by its braces."""
    code = re.sub(r'^[ \t]*#(?:\\\n|[^\n])*', lambda m: '\n' * m.group().count('\n'),
                  blank_out(text), flags=re.M)
    open_blocks = []  # (kind, first line)
    statement_start = 0
    for match in re.finditer(r'[;{}]', code):
        at, mark = match.start(), match.group()
        if mark == '{':
            head = code[statement_start:at].strip()
            inside_function = any(kind == 'function' for kind, _ in open_blocks)
            is_scope = re.match(r'(?:template\s*<[^{]*>\s*)?(?:extern|namespace|struct|class|union|'
                                r'enum)\b[^()]*$', head)
            is_function = re.search(r'\)\s*(?:const|noexcept|override|\s)*$', head)
            kind = 'function' if is_function and not inside_function else 'block'
            kind = 'scope' if is_scope and not inside_function else kind
            first = code.count('\n', 0, at - len(code[statement_start:at].lstrip())) + 1
            open_blocks.append((kind, first))
        elif mark == '}' and open_blocks:
            kind, first = open_blocks.pop()
            if kind == 'function':
                yield first, code.count('\n', 0, at) + 1
        statement_start = at + 1


def has_reason(lines, first):
    """A "Long because" in the comment that ends right above line `first` (counted from 1)."""
    above = lines[max(0, first - 13):first - 1]
    return any('Long because' in line for line in above)


def check_layout(path, lines, text):
    if text and not text.endswith('\n'):
        yield 'no newline at the end of the file'
    for number, line in enumerate(lines, 1):
        if '\t' in line:
            yield f'line {number}: a tab'
        if line != line.rstrip():
            yield f'line {number}: blanks at the end'


def check_licence(path, lines, _text):
    if not (path.endswith(COMMENTED) or os.path.basename(path) == 'dev'):
        return
    if 'SPDX-License-Identifier: MIT' not in ' '.join(lines[:2]):
        yield 'the first line must be SPDX-License-Identifier: MIT'


def check_lengths(path, lines, text):
    if not path.endswith(COMMENTED):
        return
    if len(lines) > MAX_FILE_LINES and not any('Long because' in line for line in lines[:12]):
        yield f'{len(lines)} lines; at most {MAX_FILE_LINES}, or a "Long because" at its head'
    if path.endswith(C_LIKE):
        for first, last in functions(text):
            if last - first + 1 > MAX_FUNCTION_LINES and not has_reason(lines, first):
                yield (f'line {first}: a function of {last - first + 1} lines; at most '
                       f'{MAX_FUNCTION_LINES}, or "Long because" above it')


def check_includes(path, _lines, text):
    folder = path.split('/')[0]
    allowed = ALLOWED.get(folder)
    if not path.endswith(C_LIKE) or allowed is None:
        return
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text, re.M):
        system, name = match.group(1) == '<', match.group(2)
        if system and folder == 'templates' and not is_host_side(path):
            yield f'includes <{name}>: templates include nothing outside templates'
        if not system and name.split('/')[0] not in allowed:
            yield f'includes "{name}": {folder} may include only {", ".join(sorted(allowed))}'


def is_host_side(path):
    """Templates that the host's own compiler reads too: the CPU target and the shared params."""
    name = os.path.basename(path)
    return 'cpu' in name or path == 'templates/block/params.h'


def check_asm(path, _lines, text):
    if not path.startswith('templates/') or path.startswith('templates/ptx/'):
        return
    for match in re.finditer(r'\b(?:asm|__asm__)\b', blank_out(text)):
        line = text.count('\n', 0, match.start()) + 1
        yield f'line {line}: asm outside templates/ptx'


def check_environment(path, _lines, text):
    """What a set-user-id program is told by its caller is asked for in one place."""
    is_asked = path.startswith(('base/', 'codegen/', 'cache/', 'runtime/', 'cli/', 'bench/'))
    if not is_asked or path == 'base/environment.c':
        return
    for match in re.finditer(r'\b(?:secure_)?getenv\b', blank_out(text)):
        line = text.count('\n', 0, match.start()) + 1
        yield f'line {line}: getenv; base/environment.h has ftj_variable'


def check_machine_paths(path, lines, _text):
    if path == 'tests/style/check_style.py':
        return
    for number, line in enumerate(lines, 1):
        if re.search(r'(?:^|[^\w.$}])/(?:work|root|home)/|/tmp/build', line):
            yield f'line {number}: a path of one machine'


FILE_CHECKS = {
    'no tabs, no blanks at line ends, a newline at the end': check_layout,
    'every source starts with its licence': check_licence,
    'files and functions are short, or say why not': check_lengths,
    'folders include only what they may': check_includes,
    'asm only in templates/ptx': check_asm,
    'the environment only by base/environment.c': check_environment,
    'no path of one machine': check_machine_paths,
}


def check_names(paths):
    """File names are unique, so that a name alone finds its file."""
    repeated_by_design = {'meson.build', 'README.md', '.clang-format', 'update.sh'}
    seen = {}
    for path in paths:
        name = os.path.basename(path)
        if name in repeated_by_design or path.startswith('tests/data/'):
            continue
        if name in seen:
            yield f'{path}: same name as {seen[name]}'
        seen.setdefault(name, path)


def check_subjects():
    # What is written is written: history before the rule was kept is let be.
    since = f'{FIRST_CHECKED_COMMIT}..HEAD'
    for line in git('log', '--no-merges', '--format=%h %s', since):
        commit, _, subject = line.partition(' ')
        if subject.endswith('.'):
            yield f'commit {commit}: the subject ends in a full stop'
        if len(subject) > MAX_SUBJECT_COLUMNS and not LONG_SUBJECT.startswith(commit):
            yield f'commit {commit}: the subject has {len(subject)} columns'


def check_readme():
    """The C code that README shows is code that the tests build and run."""
    with open('README.md', encoding='utf-8') as readme:
        shown = re.findall(r'^```c\n(.*?)^```', readme.read(), re.M | re.S)
    with open('examples/embed.c', encoding='utf-8') as example:
        program = example.read()
    for block in shown:
        if block not in program:
            yield f'README.md shows code that examples/embed.c lacks: {block.splitlines()[0]}'
    if not shown:
        yield 'README.md shows no code'


def file_complaints(check, paths):
    for path in paths:
        if not is_text(path) or GENERATED.match(path):
            continue
        with open(path, encoding='utf-8') as file:
            text = file.read()
        for complaint in check(path, text.splitlines(), text):
            yield f'{path}: {complaint}'


def main():
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else '.')
    paths = tree_files()
    results = [(name, list(file_complaints(check, paths))) for name, check in FILE_CHECKS.items()]
    results.append(('file names are unique', list(check_names(paths))))
    results.append(('README shows code of the examples', list(check_readme())))
    results.append(('commit subjects are short and have no full stop', list(check_subjects())))

    print(f'1..{len(results)}')
    for number, (name, complaints) in enumerate(results, 1):
        print(f'{"not ok" if complaints else "ok"} {number} - {name}')
        for complaint in complaints:
            print(f'# {complaint}')
    return 1 if any(complaints for _, complaints in results) else 0


if __name__ == '__main__':
    sys.exit(main())
