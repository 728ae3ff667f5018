#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""codegen/embed.py: what is embedded is the file, byte for byte, and the digest tells sets apart.

usage: test_embed.py EMBED.py C_COMPILER...
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
EMBED = pathlib.Path(sys.argv[1])
COMPILER = sys.argv[2:]

spec = importlib.util.spec_from_file_location("embed", EMBED)
embed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(embed)

# Everything that could be mangled on its way through a C string.
AWKWARD = b'// "quotes" \\ back\\slash ??/ ??= trigraphs \t tab\r\n\x001 zero, then a digit\xc3\xa9\nno end'

PRINTER = r"""
#include <stdio.h>
#include "codegen/template_set.h"
int main(void) {
    for (size_t i = 0; i < ftj_num_templates; i++)
        fwrite(ftj_templates[i].text, 1, ftj_templates[i].size, stdout);
    return 0;
}
"""


class Digest(unittest.TestCase):
    def test_changes_with_every_name_and_text(self):
        sets = [
            [],
            [("a.cuh", b"")],
            [("b.cuh", b"")],
            [("a.cuh", b"x")],
            [("a.cuh", b"x"), ("b.cuh", b"")],
            [("a.cuh", b""), ("b.cuh", b"x")],
            [("a.cuhb.cuh", b"x")],
        ]
        digests = {embed.digest(templates) for templates in sets}
        self.assertEqual(len(digests), len(sets))

    def test_is_the_same_everywhere(self):
        # A change here drops every user's cache.
        self.assertEqual(
            embed.digest([("a.cuh", b"x\n")]),
            "8d45a471f8728ff3b7c1d42a543bd28e4982361d6c03d6364605270e07ed76b2",
        )


class Embedding(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.scratch.name) / "templates"
        (self.root / "kernel").mkdir(parents=True)

    def tearDown(self):
        self.scratch.cleanup()

    def run_embed(self):
        out = pathlib.Path(self.scratch.name) / "out.c"
        deps = pathlib.Path(self.scratch.name) / "out.d"
        done = subprocess.run([sys.executable, EMBED, self.root, out, deps], check=False,
                              capture_output=True, text=True)
        return done, out, deps

    def test_keeps_every_byte(self):
        (self.root / "kernel" / "z.cuh").write_bytes(AWKWARD)
        (self.root / "empty.h").write_bytes(b"")
        (self.root / "meson.build").write_text("not a template")
        done, out, _ = self.run_embed()
        self.assertEqual(done.returncode, 0, done.stderr)
        printer = pathlib.Path(self.scratch.name) / "printer.c"
        printer.write_text(PRINTER)
        program = pathlib.Path(self.scratch.name) / "printer"
        include = EMBED.resolve().parent.parent
        subprocess.run([*COMPILER, "-std=c11", f"-I{include}", printer, out, "-o", program],
                       check=True)
        printed = subprocess.run([program], check=True, capture_output=True).stdout
        self.assertEqual(printed, AWKWARD)

    def test_depends_on_the_folders_too(self):
        (self.root / "kernel" / "a.cuh").write_text("x\n")
        _, _, deps = self.run_embed()
        inputs = deps.read_text().split(": ", 1)[1].split()
        self.assertCountEqual(inputs, [str(self.root), str(self.root / "kernel"),
                                       str(self.root / "kernel" / "a.cuh")])

    def test_refuses_an_empty_folder(self):
        done, out, _ = self.run_embed()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no .cuh or .h file", done.stderr)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
