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
#   pip download --no-deps -d build-peers flashinfer_python==0.6.16.post4 apache-tvm-ffi
#
# It compiles its kernels with nvcc before anything is timed, PEERS_BUILD_S seconds at most (300), and
# they stay in build-peers/aot: carried along, they need no compiling the next time.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=$top/${FTJIT_BUILD:-build-gpu}
if [ $# -lt 1 ]; then
    sed -n '3,14s/^# \{0,1\}//p' "$0"
    exit 2
fi
document=$1
peers=${2:-cudnn,flash,fa2,xqa,xqa_fp8}
wheels=$top/build-peers

if ls "$wheels"/*.whl >/dev/null 2>&1 && [ ! -d "$wheels/site" ]; then
    python3 -m pip install -q --no-index --find-links "$wheels" --no-deps --target "$wheels/site" \
        flashinfer_python apache-tvm-ffi ||
        echo 'peers.sh: the wheels in build-peers do not fit here: FlashInfer will be left out' >&2
fi
aot=$wheels/site/flashinfer/data/aot
[ ! -d "$wheels/aot" ] || { mkdir -p "$aot" && cp -r "$wheels/aot/." "$aot/"; }
export PYTHONPATH="$wheels/site" PYTHONDONTWRITEBYTECODE=1
export FLASHINFER_WORKSPACE_BASE="$wheels/cache" FLASHINFER_DISABLE_VERSION_CHECK=1

if [ ! -f "$document" ]; then
    LD_LIBRARY_PATH=$build/lib "$build/cli/ftjit" bench decode extend --out "$document" || exit 1
fi

# Compiled side by side; what fails here says so below, where it is to be timed.
for peer in $(echo "$peers" | tr ',' ' '); do
    case $peer in
    fa* | xqa*) timeout "${PEERS_BUILD_S:-300}" python3 "$here/run_peers.py" --build --peers "$peer" "$document" \
        >/dev/null 2>&1 & ;;
    esac
done
wait
find "$wheels/cache" -path '*/cached_ops/*.so' 2>/dev/null | while read -r made; do
    mkdir -p "$wheels/aot/$(basename "$made" .so)" && cp "$made" "$wheels/aot/$(basename "$made" .so)/"
done
exec python3 "$here/run_peers.py" --peers "$peers" "$document"
