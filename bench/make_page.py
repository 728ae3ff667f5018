#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write docs/performance.md from the runs in bench/results: figures come from nowhere else.

use: bench/make_page.py
"""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = """# How fast it is

Made by `bench/make_page.py` from `bench/results`. GB/s counts the cache's own bytes, scales included
(a store: read and written); share is of the read (a store: copy) ceiling of the same run. Every row
was checked against the device's own fp32 oracle, or the reference codec, before it was timed.
"""


def shape(row):
    if row["op"] == "store":
        return f"{row['batch']} tokens x {row['kv_heads']} heads, D{row['head_dim']}"
    return (f"{row['batch']} x {row['context']}, D{row['head_dim']}, "
            f"{row['q_heads']}/{row['kv_heads']} heads")


def table(rows):
    yield "| case | format | order | page | us | GB/s | share | speed-up over 16-bit | check |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    baseline = {}
    for row in rows:
        if row["format"] in ("bf16", "fp16"):
            baseline.setdefault((shape(row), row["order"], row["page"]), row["us"])
    for row in rows:
        base = baseline.get((shape(row), row["order"], row["page"]))
        faster = f"{base / row['us']:.2f}" if base else ""
        check = "ok" if row["check"]["ok"] else "FAILED"
        yield (f"| {shape(row)} | {row['format']} | {row['order']} | {row['page']} | {row['us']:.1f} "
               f"| {row['gbs']:.0f} | {row['ceiling_share']:.3f} | {faster} | {check} |")


def page(run):
    yield f"\n## {run['gpu']}, driver {run['driver']}, {run['date']}, commit {run['commit']}\n"
    yield (f"Read ceiling {run['read_ceiling_gbs']:.0f} GB/s, copy ceiling "
           f"{run['copy_ceiling_gbs']:.0f} GB/s.")
    for op in sorted({row["op"] for row in run["rows"]}):
        yield f"\n### {op}\n"
        yield from table([row for row in run["rows"] if row["op"] == op])


def main():
    lines = [HEAD]
    for path in sorted((ROOT / "bench" / "results").glob("*.json")):
        lines += page(json.loads(path.read_text()))
    (ROOT / "docs" / "performance.md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
