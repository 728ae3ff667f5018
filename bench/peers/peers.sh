#!/bin/sh
# SPDX-License-Identifier: MIT
# Our bench and its peers in one run, on a machine with a GPU:
#
#   bench/peers/peers.sh DOCUMENT [PEERS]
#
# DOCUMENT is what `ftjit bench --out` wrote a moment ago; where there is none it is made, from the
# build in FTJIT_BUILD (default: build-gpu). PEERS as run_peers.py --help has them. torch must be
# there; FlashInfer is taken from wheels in build-peers/, which need no network there:
#
#   pip download --no-deps -d build-peers flashinfer_python==0.6.16.post4
#   pip download --no-deps -d build-peers --only-binary=:all: --python-version 3.12 apache-tvm-ffi
#
# It compiles its kernels with nvcc before anything is timed, PEERS_BUILD_S seconds at most (300), and
# they stay in build-peers/aot: carried along, they need no compiling the next time.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=$top/${FTJIT_BUILD:-build-gpu}
if [ $# -lt 1 ]; then
    sed -n '3,16s/^# \{0,1\}//p' "$0"
    exit 2
fi
document=$1
peers=${2:-cudnn,flash,fa2,xqa,xqa_fp8}
wheels=$top/build-peers

# Unpacked as they are: a machine without a network may be one without pip.
if ls "$wheels"/*.whl >/dev/null 2>&1 && [ ! -d "$wheels/site" ]; then
    python3 - "$wheels" <<'END'
import glob, sys, zipfile
folder, tag = sys.argv[1], '-cp%d%d-' % sys.version_info[:2]
for wheel in glob.glob(folder + '/*.whl'):
    if '-py3-none-any' in wheel or tag in wheel:
        zipfile.ZipFile(wheel).extractall(folder + '/site')
END
fi
# Where FlashInfer looks for what is compiled already.
take_aot() {
    mkdir -p "$wheels/aot" "$wheels/site/flashinfer/data/aot"
    cp -r "$wheels/aot/." "$wheels/site/flashinfer/data/aot/"
}
take_aot
export PYTHONPATH="$wheels/site" PYTHONDONTWRITEBYTECODE=1
export FLASHINFER_WORKSPACE_BASE="$wheels/cache" FLASHINFER_DISABLE_VERSION_CHECK=1

if [ ! -f "$document" ]; then
    LD_LIBRARY_PATH=$build/lib "$build/cli/ftjit" bench decode extend --out "$document" || exit 1
fi

# Compiled side by side; what fails here says so below, where it is to be timed.
for peer in $(echo "$peers" | tr ',' ' '); do
    case $peer in
    fa* | xqa*)
        timeout "${PEERS_BUILD_S:-300}" \
            python3 "$here/run_peers.py" --build --peers "$peer" "$document" >/dev/null 2>&1 &
        ;;
    esac
done
wait
find "$wheels/cache" -path '*/cached_ops/*.so' 2>/dev/null | while read -r made; do
    kept=$wheels/aot/$(basename "$made" .so)
    mkdir -p "$kept" && cp "$made" "$kept/"
done
take_aot
# What is not compiled by now is left out: compiling is no part of timing.
export FLASHINFER_DISABLE_JIT=1
exec python3 "$here/run_peers.py" --peers "$peers" "$document"
