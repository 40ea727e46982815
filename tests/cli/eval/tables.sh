#!/bin/bash
# Tables on terminals that are narrower than they are: no line is too long, and no word is lost. Usage: tables.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/support/expect.sh"

# within COLUMNS ARGUMENTS...: what the program prints on a terminal of that width, in $place/narrow.
within() {
    columns=$1
    shift
    TERM=xterm script -qec "stty cols $columns; '$metier' $* 2>/dev/null" /dev/null </dev/null | tr -d '\r' >"$place/narrow"
    longest=$(awk '{ if (length > most) most = length } END { print most + 0 }' "$place/narrow")
}

# words FILE: its words without what a line may end with in the middle of one, each once.
words() { tr -s ' |,/' '\n' <"$1" | sort -u; }

# fits COLUMNS ARGUMENTS...: the table is too wide for that terminal, fits there, and says the same.
fits() {
    LC_ALL=C.UTF-8 "$metier" "${@:2}" >"$place/wide" 2>/dev/null
    [ "$(awk 'length >= '"$1"'' "$place/wide" | wc -l)" -gt 0 ]
    result $? "$2: the table is no wider than $1 columns to begin with"
    within "$@"
    [ "$longest" -gt 0 ] && [ "$longest" -lt "$1" ]
    result $? "metier ${*:2}: a line of $longest columns on a terminal of $1"
    # Where rows have become lines, the first column needs no title.
    missing=$(comm -23 <(words "$place/wide") <({ words "$place/narrow"; echo key; } | sort -u) | tr '\n' ' ')
    [ -z "$missing" ]
    result $? "metier ${*:2}: on a terminal of $1 columns there is no $missing"
}

"$metier" synth --domain math --count 20 --seed 1 --out "$place/rows.jsonl" >/dev/null 2>&1
model=$here/../share/models/tiny-mixtral
fits 100 objective --methods      # texts go on below
fits 80 objective --methods
fits 80 train --keys              # rows become lines
fits 80 compare --keys            # lines go on below
fits 80 eval --keys
fits 80 eval --list
fits 90 plan "$model" --ranks 64 --table parallel.experts=4
# Numbers: columns that have no room come below the others, each part with the names of the rows.
within 50 analyze --device cpu --model "$model" --data "$place/rows.jsonl" --out "$place/out"
grep '^domain \|^rows \|^all together ' "$place/narrow" >"$place/table"
[ "$(grep -c '^domain ' "$place/table")" -gt 1 ] && [ "$(grep -c '^rows ' "$place/table")" -gt 1 ] &&
    [ -z "$(awk 'length >= 50' "$place/table")" ]
result $? "the columns of analyze are not in parts that fit: $(cat "$place/table")"

# Where there is room, or no terminal, nothing changes.
within 300 objective --methods
"$metier" objective --methods >"$place/wide"
same wide narrow "a wide terminal"
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
