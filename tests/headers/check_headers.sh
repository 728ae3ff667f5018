#!/bin/sh
# SPDX-License-Identifier: MIT
# Every public header alone, in C and C++, without warnings; and a caller that has CUDA's own
# cuda.h (acceptance case O28), for each toolkit on this machine; and the library, which is to export
# what the headers declare. Prints TAP.
# Arguments: the source folder, the library, a C compiler, a C++ compiler or nothing.
set -u
source_dir=$1
library=$2
cc=$3
cxx=$4
warnings='-Wall -Wextra -Wpedantic -Wundef -Werror'
number=0
failed=0

# compile TITLE COMMAND...: one TAP line; what the compiler said follows as comments. A command that
# ends in "-" reads one public header's inclusion.
compile() {
    title=$1
    shift
    number=$((number + 1))
    if said=$(printf '#include "ftjit/%s"\ntypedef int caller;\n' "${name:-}" |
        "$@" -fsyntax-only $warnings "-I$source_dir/include" 2>&1); then
        echo "ok $number - $title"
    else
        failed=1
        echo "not ok $number - $title"
        echo "$said" | sed 's/^/# /'
    fi
}

skip() {
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

for header in "$source_dir"/include/ftjit/*.h; do
    name=${header##*/}
    compile "$name alone, C11" "$cc" -std=c11 -x c -
    if [ -z "$cxx" ]; then
        skip "$name alone, C++" 'no C++ compiler was found'
        continue
    fi
    compile "$name alone, C++11" "$cxx" -std=c++11 -x c++ -
    compile "$name alone, C++17" "$cxx" -std=c++17 -x c++ -
done

title='the library exports what the headers declare, and nothing else'
if exported=$(nm -D --defined-only "$library" 2>/dev/null); then
    number=$((number + 1))
    # What begins with two underscores is a sanitizer's, or the linker's.
    exported=$(echo "$exported" | awk '$3 !~ /^_/ { print $3 }' | sort)
    declared=$(cat "$source_dir"/include/ftjit/*.h | grep -v '^[ /]\*' |
        sed -n 's/.*[ *]\(ftj_[a-z0-9_]*\)(.*/\1/p' | sort -u)
    if [ "$exported" = "$declared" ]; then
        echo "ok $number - $title"
    else
        failed=1
        echo "not ok $number - $title"
        printf '%s\n%s\n' "$exported" "$declared" | sort | uniq -u | sed 's/^/# only one has /'
    fi
else
    skip "$title" 'nm is not there, or cannot read it'
fi

# The wheels of pip keep cuda.h in nvidia/<package>/include.
wheel_folders=$(python3 -c 'import site, sys
print("\n".join(site.getsitepackages() + [site.getusersitepackages()] + sys.path))' 2>/dev/null |
    sort -u)
with_cuda=0
for cuda_h in ${CUDA_HOME:+"$CUDA_HOME/include/cuda.h"} /usr/local/cuda*/include/cuda.h \
    /usr/include/cuda.h $(for folder in $wheel_folders; do
        ls "$folder"/nvidia/*/include/cuda.h 2>/dev/null
    done); do
    [ -f "$cuda_h" ] || continue
    case " ${seen:-} " in *" $(readlink -f "$cuda_h") "*) continue ;; esac
    seen="${seen:-} $(readlink -f "$cuda_h")"
    with_cuda=1
    version=$(sed -n 's/^#define CUDA_VERSION *\([0-9]*\).*/\1/p' "$cuda_h")
    caller=$source_dir/tests/headers/cuda_caller.c
    # -isystem: CUDA's own header is not held to our warnings.
    compile "O28: a C11 caller with cuda.h of CUDA $version" \
        "$cc" -std=c11 -isystem "${cuda_h%/*}" -x c "$caller"
    [ -n "$cxx" ] || continue
    compile "O28: a C++17 caller with cuda.h of CUDA $version" \
        "$cxx" -std=c++17 -isystem "${cuda_h%/*}" -x c++ "$caller"
done
[ "$with_cuda" = 1 ] || skip 'O28: a caller with cuda.h' 'no CUDA toolkit is installed here'

echo "1..$number"
exit "$failed"
