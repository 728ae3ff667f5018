#!/bin/sh
# SPDX-License-Identifier: MIT
# The acceptance cases that are about processes: the cache on disk, the environment, the command.
#
#   process_cases.sh FTJIT [DEVICE]
#
# FTJIT is the built command, DEVICE what it runs on (default: cpu). Prints TAP. A run is one
# checked decode by the command's own bench, which exits 1 when an answer is wrong.
set -u
ftjit=$1
device=${2:-cpu}
work=$(mktemp -d "${TMPDIR:-/tmp}/ftjit-cases.XXXXXX") || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
number=0
failed=0
export HOME="$work/home" LC_ALL=C FTJIT_LOCK_DIR="$work/locks"
unset FTJIT_CACHE_DIR XDG_CACHE_HOME FTJIT_FEATURES FTJIT_CUDA_DRIVER
mkdir "$work/home"

# result NAME: by the file of complaints that a case left.
result() {
    number=$((number + 1))
    if [ -s "$work/complaints" ]; then
        failed=1
        echo "not ok $number - $1"
        sed 's/^/# /' "$work/complaints"
        [ ! -f "$work/err" ] || sed 's/^/# stderr: /' "$work/err"
    else
        echo "ok $number - $1"
    fi
    : >"$work/complaints"
}
complain() {
    echo "$*" >>"$work/complaints"
}

# decode: one run. Leaves $work/out and $work/err; complains unless it exits with 0.
decode() {
    "$ftjit" bench decode --quick --device "$device" --kv-dtype fp8 --verbose \
        >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ "$code" = 0 ] || complain "the run ended with $code"
}
compiled() {
    grep -c ' compiled ' "$work/err"
}
# warned TEXT: exactly one line of stderr has it.
warned() {
    lines=$(grep -cF -- "$1" "$work/err")
    [ "$lines" = 1 ] || complain "$lines lines, not one, say: $1"
}
entries() {
    find "$1" -name '*.ftk' -type f | sort
}
: >"$work/complaints"

# ---- O22: a damaged entry is replaced, said once, and the answer is right -----------------------

FTJIT_CACHE_DIR=$work/cache
export FTJIT_CACHE_DIR
decode
[ "$(compiled)" -gt 0 ] || complain "a cold cache compiled nothing"
cp -R "$work/cache" "$work/sound"
decode
[ "$(compiled)" = 0 ] || complain "a warm cache compiled $(compiled) kernels"
result "O22 a second process compiles nothing"

# damaged NAME COMMAND...: run COMMAND with an entry's path in $entry, then the decode.
damaged() {
    name=$1
    entry=$(entries "$work/cache" | head -n 1)
    size=$(wc -c <"$entry")
    eval "$2"
    decode
    warned "${entry##*/}"
    [ "$(compiled)" = 1 ] || complain "$(compiled) kernels were compiled, not one"
    if [ -f "$entry" ]; then
        [ "$(wc -c <"$entry")" = "$size" ] || complain "the new entry has another size"
        decode
        [ "$(compiled)" = 0 ] || complain "the new entry is not used"
    elif [ "$name" != directory ]; then
        complain "no entry was left"
    fi
    result "O22 damaged entry: $name"
}
damaged "0 bytes" ': >"$entry"'
damaged "1 byte" 'printf F >"$entry"'
damaged "half" 'head -c $((size / 2)) "$entry" >"$work/half" && cat "$work/half" >"$entry"'
damaged "one byte changed" '
    byte=$(od -An -tu1 -j $((size / 2)) -N 1 "$entry")
    printf "\\$(printf %o $((byte ^ 255)))" |
        dd of="$entry" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null'
damaged directory 'rm "$entry" && mkdir "$entry"'
leftovers=$(find "$work"/cache/v1/tmp -type f | wc -l)
[ "$leftovers" = 0 ] || complain "$leftovers temporary files were left"
result "O22 no temporary files"

# ---- O23: eight cold processes at once ----------------------------------------------------------

# Each checks its own answers. They start together; the barrier is tests/race/race_flight.c's.
rounds=${FTJIT_O23_ROUNDS:-3}
FTJIT_RECORD=$work/misses
export FTJIT_RECORD
kernels=$(entries "$work/sound" | wc -l)
for round in $(seq "$rounds"); do
    rm -rf "$work/herd"
    for process in 1 2 3 4 5 6 7 8; do
        (
            FTJIT_CACHE_DIR=$work/herd "$ftjit" bench decode --quick --device "$device" \
                --kv-dtype fp8 --verbose >"$work/out.$process" 2>"$work/err.$process" </dev/null
            echo $? >"$work/code.$process"
        ) &
    done
    wait
    for process in 1 2 3 4 5 6 7 8; do
        [ "$(cat "$work/code.$process")" = 0 ] || complain "round $round: process $process failed"
        grep -q ' ok' "$work/out.$process" || complain "round $round: process $process has no check"
    done
    total=$(cat "$work"/err.? | grep -c ' compiled ')
    [ "$total" = "$kernels" ] || complain "round $round: $total compiles of $kernels kernels"
    found=$(entries "$work/herd" | wc -l)
    [ "$found" = "$kernels" ] || complain "round $round: $found entries of $kernels kernels"
    leftovers=$(find "$work/herd/v1/tmp" -type f | wc -l)
    [ "$leftovers" = 0 ] || complain "round $round: $leftovers temporary files were left"
done
FTJIT_CACHE_DIR=$work/herd
decode
[ "$(compiled)" = 0 ] || complain "a second start compiled $(compiled) kernels"
result "O23 eight cold processes, $rounds rounds"

# What they missed, all of them in one file at once: whole lines, of these kernels and no others.
unset FTJIT_RECORD
lines=$(wc -l <"$work/misses")
[ "$lines" -ge $((rounds * kernels)) ] || complain "$lines misses were recorded"
found=$(sort -u "$work/misses" | wc -l)
[ "$found" = "$kernels" ] || complain "$found different misses of $kernels kernels were recorded"
"$ftjit" warm --list --from "$work/misses" >"$work/out" 2>"$work/err" ||
    complain "the record cannot be read"
found=$(wc -l <"$work/out")
[ "$found" = "$kernels" ] || complain "the record is of $found kernels, not $kernels"
result "FTJIT_RECORD of eight processes at once"

# ---- O24: no usable cache directory -------------------------------------------------------------

unset FTJIT_CACHE_DIR
(
    unset HOME XDG_CACHE_HOME
    decode
)
[ "$(compiled)" -gt 0 ] || complain "nothing was compiled"
result "O24 HOME and XDG_CACHE_HOME unset"

# unusable NAME PATH: one warning that names the variable and the path.
unusable() {
    FTJIT_CACHE_DIR=$2
    export FTJIT_CACHE_DIR
    decode
    warned "$2"
    grep -F -- "$2" "$work/err" | grep -q FTJIT_CACHE_DIR || complain "the variable is not named"
    result "O24 cache directory: $1"
}
: >"$work/file"
mkdir "$work/readonly"
chmod 555 "$work/readonly"
unusable "below a device" /dev/null/x
unusable "a regular file" "$work/file"
# Root writes where modes forbid it, but nobody makes a directory in /proc.
if [ "$(id -u)" = 0 ]; then
    unusable "read-only" /proc/ftjit
else
    unusable "read-only" "$work/readonly/ftjit"
fi

FTJIT_CACHE_DIR="$work/mit Leerzeichen und ümläut 日本"
export FTJIT_CACHE_DIR
decode
first=$(compiled)
decode
[ "$first" -gt 0 ] && [ "$(compiled)" = 0 ] || complain "compiled $first, then $(compiled)"
result "O24 cache directory: spaces and letters outside ASCII"
FTJIT_CACHE_DIR=$work/cache

# ---- O26: no driver library ---------------------------------------------------------------------

for option in --version --help; do
    FTJIT_CUDA_DRIVER=/nowhere/libcuda.so.1 "$ftjit" $option >"$work/out" 2>"$work/err" ||
        complain "$option ended with $?"
done
FTJIT_CUDA_DRIVER=/nowhere/libcuda.so.1 "$ftjit" info >"$work/out" 2>"$work/err"
code=$?
[ "$code" != 0 ] || complain "info ended with 0"
[ "$(wc -l <"$work/err")" = 1 ] || complain "info said more than one line"
warned /nowhere/libcuda.so.1
result "O26 no driver library"

# ---- O27: the KV type is used, and what it is shows ---------------------------------------------

# bytes DTYPE K+V: what a row of head_dim 128 takes, K and V together.
bytes() {
    "$ftjit" bench decode --quick --device "$device" --kv-dtype "$1" --head-dim 128 \
        >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ "$code" = 0 ] || complain "$1 ended with $code"
    grep "$1" "$work/out" | grep -qw "$2" || complain "$1: no line says $2 bytes"
    grep "$1" "$work/out" | grep -q ' ok' || complain "$1: no accuracy check is printed"
    result "O27 --kv-dtype $1 takes $2 bytes a row"
}
bytes bf16 256
bytes fp8 132
bytes nvfp4 76
# refused WORDS OPTIONS...: exit 2, and every word in the sentence.
refused() {
    words=$1
    shift
    "$ftjit" bench decode --quick --device "$device" "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ "$code" = 2 ] || complain "ended with $code, not 2"
    for word in $words; do
        grep -qw -- "$word" "$work/err" || complain "\"$word\" is not in the sentence"
    done
    result "O27 refused: $*"
}
refused "int3 bf16 fp16 fp8 nvfp4" --kv-dtype int3
refused "72 16" --kv-dtype nvfp4 --head-dim 72

echo "1..$number"
exit "$failed"
