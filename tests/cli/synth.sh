#!/bin/sh
# metier synth from the outside: lists, files, splits, refusals. Usage: synth.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
here=$(dirname "$0")
failed=0

fail() { printf 'synth.sh: %s\n' "$*"; failed=1; }

# refused WORDS ARGUMENT...: exit status 2, a message with WORDS, and no file.
refused() {
    words=$1
    shift
    "$metier" synth "$@" --out "$folder/refused" 2>"$folder/err" >/dev/null
    [ $? -eq 2 ] || fail "not refused with 2: $*"
    grep -q -- "$words" "$folder/err" || { cat "$folder/err"; fail "expected '$words': $*"; }
    [ ! -e "$folder/refused" ] || fail "a file was left: $*"
}

"$metier" synth --list >"$folder/list" || fail "--list"
for domain in language reasoning science math code; do
    [ "$(grep -c "^$domain " "$folder/list")" -ge 4 ] || fail "$domain has fewer than four sub-tasks"
done

# docs/synth.md shows what the program makes.
"$metier" synth --show 1 >"$folder/shown" || fail "--show"
[ "$(wc -l <"$folder/shown")" -eq "$(wc -l <"$folder/list")" ] || fail "--show 1 is one example of each"
while IFS= read -r line; do
    grep -qF -- "$line" "$here/../../docs/synth.md" || fail "docs/synth.md lacks: $line"
done <"$folder/shown"

"$metier" synth --domain math,code --count 999 --seed 4 --out "$folder/a" >/dev/null || fail "a file"
"$metier" synth --domain math,code --count 999 --seed 4 --out "$folder/b" >/dev/null || fail "again"
"$metier" synth --domain math,code --count 999 --seed 5 --out "$folder/c" >/dev/null || fail "another seed"
"$metier" synth --domain math,code --count 999 --seed 4 --split test --out "$folder/d" >/dev/null || fail "test"
cmp -s "$folder/a" "$folder/b" || fail "the same seed, other bytes"
cmp -s "$folder/a" "$folder/c" && fail "another seed, the same bytes"
[ "$(wc -l <"$folder/a")" -eq 999 ] || fail "999 lines"
[ "$(sort -u "$folder/a" | wc -l)" -eq 999 ] || fail "an item is there twice"
[ "$(grep -c '"domain": "math"' "$folder/a")" -eq 500 ] || fail "domains take turns"
[ -z "$(sort "$folder/a" "$folder/c" | uniq | sort - "$folder/d" | uniq -d)" ] || fail "train and test share an item"

# The same problems whatever compiled the program and whatever runs it, at every difficulty.
for difficulty in 1 2 3 4 5; do
    "$metier" synth --domain all --count 1500 --seed 7 --difficulty $difficulty --out "$folder/all-$difficulty" \
        >/dev/null || fail "difficulty $difficulty"
done
sum=$(cat "$folder"/all-? | cksum)
[ "$sum" = "3051342760 872463" ] || fail "other problems than elsewhere: their cksum is $sum"

mkdir "$folder/synth" && "$metier" synth --domain all --split test --count 20 --out "$folder/synth/{domain}.jsonl" \
    >/dev/null || fail "a file for each domain"
"$metier" eval synth --data "$folder" --questions "$folder/questions" || fail "the tasks"
[ "$(wc -l <"$folder/questions")" -eq 100 ] || fail "a hundred questions"
sed 's/.*"completion": \(".*"\), "domain": "\([a-z]*\)", .*"id": \(".*"\)}/{"task": "synth_\2", "id": \3, "answer": \1}/' \
    "$folder"/synth/*.jsonl >"$folder/answers"
"$metier" eval synth --data "$folder" --answers "$folder/answers" --out "$folder/out" --quiet >"$folder/table" ||
    fail "judging"
[ "$(grep -c 'exact_match *1.0000' "$folder/table")" -eq 5 ] || { cat "$folder/table"; fail "all are right"; }

# The models that come along answer some of them: in every domain, and not all.
for model in tiny-deepseek-v2 tiny-mixtral; do
    "$metier" eval synth --data "$folder" --model "$here/../../share/models/$model" --out "$folder/$model" --quiet \
        --no-routing --threads 1 >"$folder/table" || fail "$model does not answer"
    [ "$(grep -c 'exact_match *0\.[0-9]*[1-9]' "$folder/table")" -eq 5 ] || { cat "$folder/table"; fail "$model"; }
done

# What docs/bases.md says of the demo's training rows: those of seed 1 are all among the base's, of seed 2 all but maxima and minima.
"$metier" synth --domain math --count 20000 --seed 1 --out "$folder/base.jsonl" >"$folder/table"
for pair in '1 0' '2 895'; do
    "$metier" synth --domain math --count 6000 --seed "${pair% *}" --out "$folder/drawn.jsonl" >"$folder/table"
    sort "$folder/base.jsonl" "$folder/base.jsonl" "$folder/drawn.jsonl" | uniq -u >"$folder/fresh"
    [ "$(wc -l <"$folder/fresh")" -eq "${pair#* }" ] && ! grep -v '"task": "extreme"' "$folder/fresh" ||
        fail "rows of seed ${pair% *} that the base has not read: $(wc -l <"$folder/fresh")"
done

refused "did you mean 'math'" --domain maths
refused "twice" --domain math,code,math
refused "train, valid or test" --domain math --split dev
refused "math has only" --domain math --difficulty 1 --split test --count 100000
refused "1 to 5" --domain math --difficulty 6
refused "--count" --domain math --count 0
refused "--domain is missing" --count 5
refused "not be negative" --domain math --seed -1
refused "unexpected argument" --domain math more
exit $failed
