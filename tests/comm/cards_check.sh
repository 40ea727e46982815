#!/bin/bash
# scripts/cards-check on the cpu: a verdict where all is well, and where the connection breaks.
# Usage: cards_check.sh BUILD
set -u
check=$(cd "$(dirname "$0")/../.." && pwd)/scripts/cards-check
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
mkdir "$place/build"
ln -s "$1/bin" "$1/lib" "$place/build/"
export METIER_CARDS=double METIER_CARDS_BUILD=$place/build ROUNDS=2
failed=0
# says STATUS FIRST-LINE: of two ranks.
says() {
    "$check" 2 >"$place/text" 2>"$place/progress"
    local got=$?
    [ $got -eq "$1" ] && head -n 1 "$place/text" | grep -qF -- "$2" && cmp -s "$place/text" "$place/build/cards-check.txt" && return
    printf 'FAIL exit status %s, expected %s and "%s"\n' $got "$1" "$2"
    cat "$place/text" "$place/progress" "$place/build/cards-check.log"
    failed=1
}
says 0 "cards-check: all is well with 2 ranks and a stand-in for NCCL"
[ "$(grep -c 'ranks (.*losses differ by .*weights are the bytes of the host' "$place/text")" -eq 2 ] || { cat "$place/text"; failed=1; }
METIER_DOUBLE_FAILS=20 says 1 "cards-check: FAILED: one rank's calls; "
grep -q "the connection of the cards failed: remote process exited" "$place/text" || { cat "$place/text"; failed=1; }
exit $failed
