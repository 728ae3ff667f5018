#!/bin/sh
# SPDX-License-Identifier: MIT
# A C++ compiler that spoils kernels: in decode and extend every power of two is 1, so that all keys
# weigh the same; in the store fp8 scales are one bit off. The bench must notice.
for argument; do
    [ -f "$argument" ] || continue
    if grep -Eq 'Attn(Decode|Extend(Sm90)?)<Config>' "$argument"; then
        exec c++ '-D__builtin_exp2f(x)=1.0f' "$@"
    fi
    sed -i 's/0x3b124925u/0x3b124926u/' "$argument"
done
exec c++ "$@"
