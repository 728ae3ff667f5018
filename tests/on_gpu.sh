#!/bin/sh
# SPDX-License-Identifier: MIT
# One round on a machine with a GPU, within ten minutes: the kernels against their references, the
# sanitizers, the bench. Takes the build that `./dev gpu-build` made, which needs nothing of that
# machine but its driver, NVRTC and python3.
#
#   tests/on_gpu.sh [check|bundle|codec|sanitize|bench|all]
#
# FTJIT_ROUND_SECONDS=N: end within so many instead of 580.
# FTJIT_ROUND_BENCH=LIST: the workloads to bench instead of main,small; "all" takes a minute more than
# a round of all has, so with `bench` alone.
#
# Leaves tests/gpu_record.json and bench/results/<gpu>.json, which are committed, and copies of both
# and its logs in $OUT. A part alone adds its suites to the record if that is of the same trees.
set -u
cd "$(dirname "$0")/.." || exit 1
part=${1:-all}
build=$PWD/${FTJIT_BUILD:-build-gpu}
out=${OUT:-$build/round}
work=$build/work
device=${FTJIT_ROUND_DEVICE:-cuda} # cpu: a dry run of this script
bench_workloads=${FTJIT_ROUND_BENCH:-main,small}
bench_narrowed=16k
if [ "$device" = cpu ]; then
    bench_workloads=cpu
    bench_narrowed=cpu
fi
processes=$(nproc)
[ "$processes" -le 16 ] || processes=16
deadline=$(($(date +%s) + ${FTJIT_ROUND_SECONDS:-580}))
FTJIT_CACHE_DIR=$work/cache
export FTJIT_CACHE_DIR
record=tests/gpu_record.json
results=bench/results
mkdir -p "$out" "$work/cache"
if [ "$device" = cpu ]; then
    record=$work/gpu_record.json
    results=$work/results
fi
: >"$work/suites"

if [ ! -x "$build/cli/ftjit" ]; then
    echo "on_gpu.sh: $build/cli/ftjit is not there; run ./dev gpu-build and carry build-gpu" >&2
    exit 1
fi

# limited SECONDS COMMAND...: a program of ours, never past the round's own end.
limited() {
    seconds=$1
    shift
    left=$((deadline - $(date +%s)))
    [ "$seconds" -le "$left" ] || seconds=$left
    [ "$seconds" -gt 0 ] || return 124
    LD_LIBRARY_PATH=$build/lib timeout -k 5 "$seconds" "$@"
}
ftjit() {
    seconds=$1
    shift
    limited "$seconds" "$build/cli/ftjit" "$@" --device "$device"
}

# suite NAME PASSED FAILED SKIPPED STARTED [NOT_REACHED]: remember a result for the record.
suite() {
    seconds=$(($(date +%s) - $5))
    echo "$1 $2 $3 $4 $seconds ${6:-}" >>"$work/suites"
    echo "== $1: $2 passed, $3 failed, $4 skipped${6:+, $6 not reached} in $seconds s"
}

# sharded NAME SECONDS ARGS...: rows of the check harness, dealt to processes that share one cache as
# they come to them; then where the time went. Runs beside other functions: it waits for its own
# processes only.
sharded() {
    pids=
    name=$1
    seconds=$2
    shift 2
    started=$(date +%s)
    rm -rf "${work:?}/$name"
    mkdir -p "$work/$name"
    (ftjit 60 verify --list "$@" >"$work/$name/list" 2>&1) # in a shell of its own, as the others
    i=0
    while [ "$i" -lt "$processes" ]; do
        (
            export FTJIT_RECORD="$work/$name/compiled"
            ftjit "$seconds" verify --verbose --deal "$work/$name/deal" "$@" \
                >"$work/$name/shard_$i.txt" 2>"$work/$name/shard_$i.err"
            echo $? >"$work/$name/shard_$i.rc"
        ) &
        pids="$pids $!"
        i=$((i + 1))
    done
    # shellcheck disable=SC2086
    wait $pids
    # shellcheck disable=SC2046
    set -- $(python3 tests/gpu_record.py shards "$work/$name" "$processes")
    { echo "# $name" && cat "$work/$name/report" "$work/$name/times"; } >>"$out/check.txt"
    suite "$name" "$1" "$2" "$3" "$started" "$4"
    cat "$work/$name/times"
    [ ! -f "$work/$name/compiled" ] ||
        echo "$(sort -u "$work/$name/compiled" | wc -l) kernels were compiled here"
}

# Everything but extend to the last row; of extend, whose matrix has 8,000 rows, a covering set.
# FTJIT_ROUND_QUICK=1: only a covering set of the others, under a name that says so.
check() {
    : >"$out/check.txt"
    if [ -n "${FTJIT_ROUND_QUICK:-}" ]; then
        sharded check_quick 100 --test '[!e]*' --quick
        return
    fi
    sharded check 300 --test '[!e]*' & # what hangs is to leave time for the others
    sharded extend 300 --test 'extend*' --quick &
    wait
}

# 2^24 rows' worth of values a format (of 128), byte for byte; not a part of `all`.
codec() {
    : >"$out/check.txt"
    sharded codec 500 --test codec --codec-values $((1 << 31))
}

# What the formats cost on a model's activations, and what the kernels add to it.
activations() {
    started=$(date +%s)
    if ftjit 60 verify --input tests/data/smollm2 >"$out/activations.txt" 2>&1; then
        code=0
    else
        code=1
    fi
    cat "$out/activations.txt"
    suite activations $((1 - code)) "$code" 0 "$started"
}

# Programs for the driver's side of things: contexts, capture, threads, repeats. All at once, for none
# needs much of the machine.
gpu_programs() {
    started=$(date +%s)
    passed=0
    failed=0
    skipped=0
    rm -rf "${work:?}/gpu"
    mkdir -p "$work/gpu"
    for program in "$build"/tests/gpu/test_*; do
        if [ -d "$program" ] || [ ! -x "$program" ]; then
            continue
        fi
        (
            log=$work/gpu/${program##*/}
            limited 150 "$program" >"$log.txt" 2>&1
            code=$?
            echo "# ended with $code" >>"$log.txt"
            echo "$code" >"$log.rc"
        ) &
    done
    wait
    : >"$out/gpu.txt"
    for rc in "$work"/gpu/*.rc; do
        [ -f "$rc" ] || continue # there was no program
        { echo "# $(basename "$rc" .rc)" && cat "${rc%.rc}.txt"; } >>"$out/gpu.txt"
        case $(cat "$rc") in
        0) passed=$((passed + 1)) ;;
        77) skipped=$((skipped + 1)) ;;
        *) failed=$((failed + 1)) ;;
        esac
    done
    cat "$out/gpu.txt"
    suite gpu "$passed" "$failed" "$skipped" "$started"
}

# Every layer of every known model, served by the bundle for five targets that tests/gpu_kernels.sh made,
# where it came along: without NVRTC, and with a kernel that is not in it being an error.
bundle() {
    if [ ! -f "$build/presets.ftb.xz" ]; then
        echo '== bundle: not run, for tests/gpu_kernels.sh made no presets.ftb.xz'
        return 0
    fi
    started=$(date +%s)
    unpack presets
    mkdir -p "$work/no_cache"
    if (
        export FTJIT_CACHE_PATH="$work/presets.ftb" FTJIT_CACHE_DIR="$work/no_cache"
        export FTJIT_NVRTC=/nowhere FTJIT_SEALED=error
        limited 60 "$build/tests/gpu/test_presets" >"$out/bundle.txt" 2>&1
    ); then
        code=0
    else
        code=1
    fi
    cat "$out/bundle.txt"
    suite bundle $((1 - code)) "$code" 0 "$started"
}

# A few small rows under each tool, those of extend apart (and with them the acceptance cases, which
# are of every operation): its kernels and the others are judged by themselves. The kernels come from
# the cache that `check` filled.
#
# racecheck runs three times, and each run counts. It seems to lose track of barriers now and then: it
# names a pair of instructions with a __syncthreads() between them, and another pair in another run. One
# launch at a time spares it most of those; what every run reports is listed by itself.
sanitize() {
    started=$(date +%s)
    : >"$out/sanitize.txt"
    for rows in sanitize sanitize_extend; do
        tests='[!ae]*'
        [ "$rows" = sanitize ] || tests='[ae]*'
        sanitize_rows $rows memcheck "$tests" --tool memcheck &
        sanitize_rows $rows initcheck "$tests" --tool initcheck &
        for run in 1 2 3; do
            sanitize_rows $rows "racecheck_$run" "$tests" --tool racecheck \
                --num-cuda-barriers 64 --force-blocking-launches &
        done
    done
    wait
    judge_sanitize sanitize
    judge_sanitize sanitize_extend
}

# sanitize_rows SUITE NAME TESTS OPTIONS...
sanitize_rows() {
    log=$work/$1_$2
    tests=$3
    shift 3
    limited 150 compute-sanitizer "$@" --error-exitcode 99 --print-limit 1000 \
        "$build/cli/ftjit" verify --quick --test "$tests" --shard 0/30 >"$log.txt" 2>&1
    echo $? >"$log.rc"
}

judge_sanitize() {
    passed=0
    failed=0
    for name in memcheck initcheck racecheck_1 racecheck_2 racecheck_3; do
        code=$(cat "$work/$1_$name.rc")
        { echo "# $1 $name ended with $code" && tail -n 60 "$work/$1_$name.txt"; } \
            >>"$out/sanitize.txt"
        if [ "$code" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    done
    # Two lines a race; the same race in three runs is three times the same line.
    races=$(for run in 1 2 3; do
        sed -n '/Race reported/{N;s/\n=* */ /;s/ \[[0-9]* hazards*\]//;p;}' \
            "$work/$1_racecheck_$run.txt" | sort -u
    done | sort | uniq -c | awk '$1 == 3' | tee -a "$out/sanitize.txt" | wc -l)
    echo "# $1: $races races in every run of racecheck" >>"$out/sanitize.txt"
    grep "^# $1\|ERROR SUMMARY\|RACECHECK SUMMARY" "$out/sanitize.txt"
    suite "$1" "$passed" "$failed" 0 "$started"
}

# bench_step NAME SECONDS ARGS...: one bench; its check failing is a failure of the step.
bench_step() {
    name=$1
    seconds=$2
    shift 2
    if ftjit "$seconds" bench "$@" >"$work/bench_$name.txt" 2>&1; then
        passed=$((passed + 1))
    else
        echo "bench $name ended with $?" >>"$work/bench_$name.txt"
        failed=$((failed + 1))
    fi
    cat "$work/bench_$name.txt"
    { echo "# bench $name" && cat "$work/bench_$name.txt"; } >>"$out/bench.txt"
}

bench() {
    started=$(date +%s)
    passed=0
    failed=0
    : >"$out/bench.txt"
    commit=$(cat "$build/commit")
    rm -f "$work/rows.json" "$work/narrowed.json"
    bench_step rows 240 decode store extend --workload "$bench_workloads" --commit "$commit" \
        --out "$work/rows.json"
    # What a GPU without bulk copies and wgmma would run.
    bench_step narrowed 60 extend --workload "$bench_narrowed" --kv-dtype bf16,fp8,nvfp4 \
        --features -tma,-wgmma --commit "$commit" --out "$work/narrowed.json"
    bench_step launch 30 launch
    bench_step start 60 start
    python3 tests/gpu_record.py results "$results" "$out" "$work/rows.json" \
        "$work/narrowed.json" || failed=$((failed + 1))
    suite bench "$passed" "$failed" 0 "$started"
}

ftjit 30 info >"$out/info.txt" 2>&1
code=$?
cat "$out/info.txt"
if [ "$code" != 0 ]; then
    echo 'on_gpu.sh: there is no usable GPU here' >&2
    exit 1
fi
ftjit 30 info --json >"$work/info.json"
nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 >"$work/driver"

# unpack NAME: the bundle of that name, into the round's folder.
unpack() {
    python3 -c 'import lzma, sys; sys.stdout.buffer.write(lzma.open(sys.argv[1]).read())' \
        "$build/$1.ftb.xz" >"$work/$1.ftb"
}

# with_kernels FUNCTION: with those that tests/gpu_kernels.sh compiled, where they came along. What they
# do not serve (another NVRTC, other sources) is compiled first, which all cores do: the harness's
# processes, which might have other work, leave half of them alone.
with_kernels() {
    if [ -f "$build/kernels.ftb.xz" ]; then
        unpack kernels && export FTJIT_CACHE_PATH="$work/kernels.ftb"
    fi
    if [ -f "$build/kernels.record" ] && [ "$device" != cpu ]; then
        limited 300 "$build/cli/ftjit" warm --from "$build/kernels.record" >"$work/warm.txt" 2>&1
        tail -n 2 "$work/warm.txt"
    fi
    "$@"
    unset FTJIT_CACHE_PATH
}

# The programs and the activations need little of the machine while the harness compiles and solves.
check_all() {
    activations >"$work/activations.said" 2>&1 &
    gpu_programs >"$work/gpu_programs.said" 2>&1 &
    check
    wait
    cat "$work/gpu_programs.said" "$work/activations.said"
}

case $part in
check) with_kernels check_all ;;
bundle) bundle ;;
codec) codec ;;
sanitize) with_kernels sanitize ;;
bench) bench ;;
all) with_kernels check_all && bundle && with_kernels sanitize && bench ;;
*)
    echo 'use: tests/on_gpu.sh [check|bundle|codec|sanitize|bench|all]' >&2
    exit 2
    ;;
esac

python3 tests/gpu_record.py record "$record" "$build/trees" "$work/info.json" \
    "$work/driver" "$work/suites"
code=$?
cp "$record" "$out/"
exit "$code"
