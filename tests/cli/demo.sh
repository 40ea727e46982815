#!/bin/sh
# The demo's sentence and tables are README's, but for the seconds of a step: on every processor, at every instruction level, with
# every compiler and number of threads. Usage: demo.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/../.." || exit 1

# tables FILE: the sentences, the table of few experts and the table of figures, without the seconds of a step.
tables() {
    awk '/^method +exact %/ { figures = 1 } /^(No method|[a-z-]+) .*with few experts\./ { inside = 1 }
        inside && figures && NF == 0 { exit } inside { if (figures) $NF = ""; print }' "$1"
}

"$metier" compare share/configs/compare-demo.yaml out="$folder/demo" >"$folder/shown" 2>"$folder/err" || {
    cat "$folder/err"
    exit 1
}
tables README.md >"$folder/expected"
tables "$folder/shown" >"$folder/found"
[ "$(grep -cE '^(base|aux|paper|metier) ' "$folder/expected")" -eq 8 ] ||
    { echo "demo.sh: README.md has no two tables of the base and three methods"; exit 1; }
diff "$folder/expected" "$folder/found" || {
    echo "demo.sh: the demo's tables (>) are not README's (<)"
    exit 1
}
