#!/bin/sh
# SPDX-License-Identifier: MIT
# Fuzz the readers of untrusted files with libFuzzer under ASan and UBSan (needs clang):
#
#   tests/fuzz/run.sh SECONDS FOLDER [NAME...]
#
# SECONDS for each of entry, bundle, problem and npy, or of those named. Programs, inputs that were
# kept and inputs that broke something go to FOLDER, an absolute path.
set -eu
seconds=${1:?how many seconds for each?}
work=${2:?which folder for what is found?}
shift 2
[ $# -gt 0 ] || set -- entry bundle problem npy
cd "$(dirname "$0")/../.."
mkdir -p "$work"
python3 codegen/embed.py templates "$work/template_set.c" "$work/template_set.d"
flags="-std=c11 -g -O1 -I. -Iinclude -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE"
flags="$flags -DFTJ_LIBEXEC_DIR=\"/nowhere\""
sources="base/*.c cache/*.c codegen/*.c $work/template_set.c tests/ref/ref_npy.c
    tests/ref/ref_codec.c"
for name in "$@"; do
    mkdir -p "$work/$name.seeds" "$work/$name.kept"
    # shellcheck disable=SC2086
    {
        clang $flags -fsanitize=address,undefined -fno-sanitize-recover=all $sources \
            "tests/fuzz/fuzz_$name.c" tests/fuzz/fuzz_replay.c -lxxhash -ldl -lm -lpthread \
            -o "$work/replay_$name"
        clang $flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $sources \
            "tests/fuzz/fuzz_$name.c" -lxxhash -ldl -lm -lpthread -o "$work/fuzz_$name"
    }
    "$work/replay_$name" --seeds "$work/$name.seeds"
    echo "fuzz_$name for $seconds s"
    "$work/fuzz_$name" -max_total_time="$seconds" -max_len=8192 -timeout=20 -print_final_stats=1 \
        -artifact_prefix="$work/$name-" "$work/$name.kept" "$work/$name.seeds" 2>"$work/$name.log" || {
        tail -40 "$work/$name.log"
        exit 1
    }
    grep -E 'number_of_executed_units|new_units_added' "$work/$name.log"
done
