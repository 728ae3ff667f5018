#!/bin/sh
# SPDX-License-Identifier: MIT
# Write the golden sources and keys anew, from the build in build/; then read the diff. A key that
# changed means that every user's cache is dropped: say so in CHANGELOG.md.
set -eu
cd "$(dirname "$0")/../../.."
ninja -C build tests/golden/source/golden_sources
build/tests/golden/source/golden_sources --write tests/golden/source
git --no-pager diff --stat -- tests/golden/source
