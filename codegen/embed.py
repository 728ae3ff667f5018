#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write every kernel template into one C file that implements codegen/template_set.h.

usage: embed.py TEMPLATES_DIR OUTPUT.c DEPFILE

The digest is the SHA-256, in hex, over (length, name, length, text) of every template in order of
name, so that no rename and no moved boundary keeps it. The depfile names the folders too: a
template that is added or removed rebuilds the set without anybody listing it.
"""

import hashlib
import pathlib
import sys

SUFFIXES = (".cuh", ".h")


def find_templates(root):
    """(name as included, bytes) in order of name; the CUDA and the CPU target share the set."""
    paths = [p for p in root.rglob("*") if p.is_file() and p.suffix in SUFFIXES]
    return sorted((p.relative_to(root).as_posix(), p.read_bytes()) for p in paths)


def digest(templates):
    sha = hashlib.sha256()
    for name, text in templates:
        for part in (name.encode(), text):
            sha.update(len(part).to_bytes(8, "little"))
            sha.update(part)
    return sha.hexdigest()


def c_string(data):
    """One literal. '?' is escaped because C11 still knows trigraphs; octal escapes are always three
    digits, so that a digit behind one is not swallowed."""
    plain = {ord('"'): '\\"', ord("\\"): "\\\\", ord("?"): "\\?", ord("\n"): "\\n"}
    parts = []
    for byte in data:
        if byte in plain:
            parts.append(plain[byte])
        elif 32 <= byte < 127:
            parts.append(chr(byte))
        else:
            parts.append(f"\\{byte:03o}")
    return '"' + "".join(parts) + '"'


def c_file(templates):
    lines = [
        "/* SPDX-License-Identifier: MIT */",
        "/* Written by codegen/embed.py from templates/; do not edit. */",
        '#include "codegen/template_set.h"',
        "",
        "const struct ftj_template ftj_templates[] = {",
    ]
    for name, text in templates:
        lines.append(f"    {{{c_string(name.encode())},")
        lines += [f"     {c_string(line)}" for line in text.splitlines(keepends=True)] or ['     ""']
        lines.append(f"     , {len(text)}}},")
    lines += [
        "};",
        f"const size_t ftj_num_templates = {len(templates)};",
        f'const char ftj_templates_digest[] = "{digest(templates)}";',
        "",
    ]
    return "\n".join(lines)


def depfile(output, root):
    folders = [root, *(p for p in root.rglob("*") if p.is_dir())]
    files = [p for p in root.rglob("*") if p.is_file() and p.suffix in SUFFIXES]
    inputs = [str(p).replace(" ", "\\ ") for p in folders + files]
    return f"{str(output).replace(' ', chr(92) + ' ')}: {' '.join(inputs)}\n"


def main():
    root, output, deps = (pathlib.Path(a) for a in sys.argv[1:4])
    templates = find_templates(root)
    if not templates:
        sys.exit(f"embed.py: no {' or '.join(SUFFIXES)} file under {root}")
    output.write_text(c_file(templates), encoding="ascii")
    deps.write_text(depfile(output, root), encoding="utf-8")


if __name__ == "__main__":
    main()
