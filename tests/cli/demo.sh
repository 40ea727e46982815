#!/bin/sh
# The demo's table is README's, but for the seconds of a step: on every processor, at every instruction level, with
# every compiler and number of threads. Usage: demo.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/../.." || exit 1

# table FILE: the rows from the head to the next empty line, without the last column.
table() { awk '/^method +exact %/ { inside = 1 } inside && NF == 0 { exit } inside { $NF = ""; print }' "$1"; }

"$metier" compare share/configs/compare-demo.yaml out="$folder/demo" >"$folder/shown" 2>"$folder/err" || {
    cat "$folder/err"
    exit 1
}
table README.md >"$folder/expected"
table "$folder/shown" >"$folder/found"
[ "$(wc -l <"$folder/expected")" -eq 5 ] || { echo "demo.sh: README.md has no table of the base and three methods"; exit 1; }
diff "$folder/expected" "$folder/found" || {
    echo "demo.sh: the demo's table (>) is not README's (<)"
    exit 1
}
