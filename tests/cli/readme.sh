#!/bin/bash
# README's commands, pasted from top to bottom into a folder that has what a clone has after a build: none fails. Left out
# are the long ones that other tests run. Usage: readme.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/scripts" "$place/build/release/bin"
ln -s "$metier" "$place/build/release/bin/metier"
ln -s "$here/share" "$place/share"
cp "$here/README.md" "$place"
cp "$here/scripts/readme-walk" "$place/scripts"
export METIER_SHARE="$here/share"
"$place/scripts/readme-walk" --without '^\./(demo|test)|op_cases|compare-demo|sandbox --check' >"$place/table"
status=$?
cat "$place/table"
# A walk that reads no commands would pass as well.
[ "$(grep -c '^0 ' "$place/table")" -ge 20 ] || { echo "FAIL fewer than 20 commands were run"; exit 1; }
exit $status
