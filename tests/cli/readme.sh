#!/bin/bash
# README's commands, pasted from top to bottom into an empty folder by somebody who has installed metier into ~/.local:
# none fails. Left out are the long ones that other tests run. Usage: readme.sh BUILD CMAKE
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
export HOME=$place/home
"$2" --install "$1" --prefix "$HOME/.local" >"$place/log" 2>&1 || { cat "$place/log" && exit 1; }
mkdir -p "$place/empty/scripts"
cp "$here/scripts/readme-walk" "$place/empty/scripts"
"$place/empty/scripts/readme-walk" --without '^\./(demo|test)|^scripts/|^metier compare|sandbox --check' \
    "$here/README.md" >"$place/table"
status=$?
cat "$place/table"
# A walk that reads no commands would pass as well.
[ "$(grep -c '^0 ' "$place/table")" -ge 20 ] || { echo "FAIL fewer than 20 commands were run"; exit 1; }
exit $status
