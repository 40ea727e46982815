#!/bin/sh
# The files that fuzz targets ask for ("// With: FILE ...") are there: scripts/fuzz compiles them, no test does.
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=0
for target in tests/fuzz/fuzz_*.c; do
    for file in $(sed -n 's|^// With: ||p' "$target"); do
        case $file in -*) continue ;; esac # an option
        [ -f "$file" ] || {
            printf 'FAIL %s: there is no %s\n' "$target" "$file"
            failed=1
        }
    done
done
exit $failed
