#!/bin/sh
# What a release build should have against hostile input, read from the headers of the program, the library and the
# module. Usage: hardening.sh METIER
set -u
metier=$1
failed=0
command -v readelf >/dev/null || { echo "skipped: readelf (binutils) is not installed"; exit 77; }

# has FILE TEXT WHAT: among what readelf says.
has() {
    readelf -hldW --dyn-syms "$1" | grep -Eq -- "$2" && return
    printf 'FAIL %s: %s\n' "${1##*/}" "$3"
    failed=1
}

has "$metier" '\(FLAGS_1\).*PIE' "not position independent"
lib=$(dirname "$metier")/../lib
for file in "$metier" "$lib/libmetier.so" "$lib/metier/metier_mpi.so"; do
    [ -e "$file" ] || continue # built without MPI, or the program alone
    has "$file" '\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW' "symbols are bound late"
    has "$file" 'GNU_RELRO' "addresses can be written to"
    has "$file" 'GNU_STACK .* RW ' "a stack that is executed"
    has "$file" '__stack_chk_fail' "no canaries on the stack"
done
has "$metier" '__[a-z]*printf_chk' "copies are not checked"
exit $failed
