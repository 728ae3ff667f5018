#!/bin/sh
# SPDX-License-Identifier: MIT
# Compile here what the check harness will ask for on an sm_90a GPU, so that a round there does not:
#
#   tests/gpu_kernels.sh [BUILD [TEST]]
#
# Before a round of all, the acceptance cases by the CPU target, four minutes: what hangs or is wrong
# there would take a GPU's time.
#
# BUILD is a build with tests (default: build), TEST those that `ftjit verify` is to ask for (default: all
# of a round). A fake of the driver stands in for the GPU: it runs nothing, but every kernel is asked for,
# and FTJIT_RECORD keeps which. Leaves build-gpu/kernels.ftb.xz, which tests/on_gpu.sh takes if it is there:
# some 2,000 kernels, ten minutes on two cores; and build-gpu/kernels.record, of which kernels they are.
# They serve the NVRTC they were made by and the sources they were made of; from the record the round
# there compiles what they do not serve.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
tests=${2:-}
ftjit=$build/cli/ftjit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p build-gpu
if [ -z "$tests" ]; then
    FTJIT_CACHE_DIR=$work/cpu timeout 1200 "$ftjit" verify --device cpu --test acceptance --variant '*sm90*'
fi

# ask COMMAND...: what is run fails, for there is no GPU.
ask() {
    FTJIT_CUDA_DRIVER=$build/tests/fake/libfake_cuda.so FAKE_CUDA_ARCH=90 \
        FTJIT_NVRTC=$build/tests/fake/libfake_nvrtc.so FTJIT_CACHE_DIR=$work/fake \
        FTJIT_RECORD=$work/record "$@" >"$work/said" 2>&1 || true
}
if [ -n "$tests" ]; then
    ask "$ftjit" verify --device 0 --test "$tests" --quick
else
    for program in "$build"/tests/gpu/test_*; do
        [ ! -f "$program" ] || [ ! -x "$program" ] || ask "$program"
    done
    ask "$ftjit" verify --device 0 --input tests/data/smollm2
    ask "$ftjit" verify --device 0 --test 'extend*' --quick
    ask "$ftjit" verify --device 0 --test '[!e]*'
fi
if [ ! -s "$work/record" ]; then
    cat "$work/said" >&2
    echo 'gpu_kernels.sh: the harness asked for no kernel; is BUILD a build with tests?' >&2
    exit 1
fi
sort -u "$work/record" >build-gpu/kernels.record
export FTJIT_CACHE_DIR="$work/cache"
"$ftjit" warm --from "$work/record" --bundle "$work/kernels.ftb"
"$ftjit" warm --targets sm_80,sm_89,sm_90a,sm_100a,sm_120a --preset all --bundle "$work/presets.ftb" |
    tail -n 2
for bundle in kernels presets; do
    python3 - "$work/$bundle.ftb" build-gpu/$bundle.ftb.xz <<'END'
import lzma
import shutil
import sys

with open(sys.argv[1], 'rb') as bundle, lzma.open(sys.argv[2], 'wb') as packed:
    shutil.copyfileobj(bundle, packed)
END
done
ls -l build-gpu/*.ftb.xz
