#!/bin/bash
# Rows a model has read: train records them, synth and recipe leave them out, compare refuses or replaces them.
# Usage: rows.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"
tiny=$here/../share/models/tiny-deepseek-v2

# hashes FILE: how many a file of hashes has.
hashes() { echo $((($(stat -c %s "$1") - 64) / 8)); }
# shared FILE FILE: rows of the second that the first has.
shared() { grep -cFf <(sed 's/, "completion".*//' "$1") "$2"; }

expect 0 "60 items" synth --domain math --count 60 --seed 1 --out "$place/math.jsonl"
cat >"$place/base.yaml" <<END
model: $tiny
out: $place/base
train: full
method: none
steps: 3
seed: 7
threads: 1
device: cpu
data: {path: $place/math.jsonl, record_rows: true, template: plain, max_length: 64}
batch: {examples: 16, tokens: 1024}
log.tensorboard: false
END
read=$place/base/model/rows_read.hashes
expect 2 "data.record_rows means nothing with train: lora" train "$place/base.yaml" train=lora --quiet
expect 0 "" train "$place/base.yaml" --quiet
[ "$(hashes "$read")" -eq 48 ]
result $? "3 steps of 16 rows have read $(hashes "$read")"
# A run that goes on has read what the whole run has.
expect 0 "" train "$place/base.yaml" out="$place/long" steps=5 --quiet
[ "$(hashes "$place/long/model/rows_read.hashes")" -eq 60 ]
result $? "more than an epoch has read $(hashes "$place/long/model/rows_read.hashes")"
# A model that is trained on has read both.
expect 0 "20 items" synth --domain code --count 20 --seed 1 --out "$place/code.jsonl"
expect 0 "" train "$place/base.yaml" model="$place/base/model" out="$place/next" data.path="$place/code.jsonl" \
    data.record_rows=false steps=1 --quiet
[ "$(hashes "$place/next/model/rows_read.hashes")" -eq 64 ]
result $? "a model and what it was trained from have read $(hashes "$place/next/model/rows_read.hashes")"
# It stays with what is made of the model.
expect 0 "" train "$place/base.yaml" model="$place/base/model" out="$place/lora" train=lora data.record_rows=false steps=1 --quiet
expect 0 "" merge "$place/base/model" --adapter "$place/lora/adapter" --out "$place/merged"
cmp -s "$read" "$place/merged/rows_read.hashes"
result $? "a merged model has another record, or none"

# The same draw again, without what was read.
expect 0 "100 items; 48 that are excluded were replaced" synth --domain math --count 100 --seed 1 --exclude "$read" --out "$place/fresh.jsonl"
expect 0 "100 items; 80 that are excluded were replaced" synth --domain math,code --count 100 --seed 1 \
    --exclude "$place/math.jsonl" --exclude "$place/code.jsonl" --out "$place/both.jsonl"
[ "$(shared "$place/math.jsonl" "$place/both.jsonl")" -eq 0 ] && [ "$(shared "$place/math.jsonl" "$place/fresh.jsonl")" -eq 12 ]
result $? "rows that are excluded: $(shared "$place/math.jsonl" "$place/both.jsonl"), $(shared "$place/math.jsonl" "$place/fresh.jsonl")"
expect 2 " that are excluded: ask for fewer" synth --domain math --difficulty 1 --count 100000 --exclude "$read" --out "$place/none.jsonl"
: >"$place/empty.jsonl"
expect 2 "empty.jsonl: has no rows" synth --domain math --count 9 --exclude "$place/empty.jsonl" --out "$place/none.jsonl"
head -c 100 "$read" >"$place/cut.hashes"
expect 2 "is damaged: it does not have as many hashes as it says" synth --domain math --count 9 --exclude "$place/cut.hashes" --out "$place/none.jsonl"
sed 's/rows read 1/rows read 9/' "$read" >"$place/new.hashes"
expect 2 "of another version" synth --domain math --count 9 --exclude "$place/new.hashes" --out "$place/none.jsonl"
[ ! -e "$place/none.jsonl" ]
result $? "what was refused was written"
expect 2 "--exclude means nothing with --list" synth --list --exclude "$read"

cat >"$place/compare.yaml" <<END
model: $place/base/model
out: $place/c
methods: [none]
seeds: [1, 2]
domains: [{name: mix, of: [math, code]}]
problems: {train: 100, test: 20, draw: seed}
training: {steps: 1, batch: {examples: 4, tokens: 256}, lora: {rank: 2, alpha: 4}, data: {max_length: 64, template: plain}}
analysis.sample: 16
threads: 1
device: cpu
END
# Rows of a file are refused, with how many and which, before anything is written.
files="domains=[{name: mix, of: [{name: m, train: $place/math.jsonl, test: $place/fresh.jsonl}, code]}]"
expect 2 "math.jsonl: 48 of 60 rows have already been read by the model $place/base/model (its" compare "$place/compare.yaml" "$files"
grep -q "the first in line [0-9]*: '.*'; leave them out (metier synth --exclude, metier recipe --exclude), or set allow_read_rows: true" \
    "$place/text" && [ ! -e "$place/c" ]
result $? "what is refused: $(cat "$place/text")"
expect 0 "" compare "$place/compare.yaml" "$files" out="$place/allowed" seeds=[1] allow_read_rows=true
# Built-in rows are drawn anew for each seed, and without what was read: problems.seed + seed is the base's 1 here.
expect 0 "trained on mix (math, code), measured" compare "$place/compare.yaml" seeds=[1,0] problems.seed=0
grep -q "train-math-seed=1.jsonl: 48 of 148 drawn rows were replaced: a model has read them" "$place/text"
result $? "rows that were replaced: $(cat "$place/text")"
one=$place/c/data/train-math-seed=1.jsonl two=$place/c/data/train-math-seed=0.jsonl
[ "$(wc -l <"$one")" -eq 100 ] && [ "$(wc -l <"$two")" -eq 100 ] && ! cmp -s "$one" "$two" && cmp -s "$one" "$place/fresh.jsonl" &&
    [ -e "$place/c/data/test-math.jsonl" ] && [ ! -e "$place/c/data/train-math.jsonl" ]
result $? "the files of a seed: $(ls "$place/c/data")"
# Rows that lie there from before are looked up as well.
expect 0 "" compare "$place/compare.yaml" out="$place/old" allow_read_rows=true problems.draw=once seeds=[1] problems.train=60
expect 2 "train-math.jsonl: 48 of 60 rows have already been read by the model" compare "$place/compare.yaml" out="$place/old" problems.draw=once \
    seeds=[1,2] problems.train=60
expect 2 "problems.draw means nothing" compare "$place/compare.yaml" problems.draw=seed out="$place/idle" \
    "domains=[{name: m, train: $place/fresh.jsonl, test: $place/fresh.jsonl}]"
# Of a recipe each seed has rows of its own, and nobody has those that are held out.
mkdir -p "$place/data/gsm8k"
for i in {1..60}; do echo "{\"question\": \"How many are $i pears?\", \"answer\": \"#### $i\"}"; done >"$place/data/gsm8k/train.jsonl"
echo '{"question": "How many are no apples?", "answer": "#### 0"}' >"$place/data/gsm8k/test.jsonl"
expect 0 "gsm8k: 60 rows, 0 unusable, 0 that overlap with test questions removed, 2 read by a model or held out; 20 drawn" \
    compare "$place/compare.yaml" out="$place/recipes" "domains=[{name: g, recipe: gsm8k}]" problems.train=20 evaluation.data="$place/data" \
    training.data.max_length=256
one=$place/recipes/data/train-g-seed=1.jsonl two=$place/recipes/data/train-g-seed=2.jsonl test=$place/recipes/data/test-g.jsonl
[ "$(wc -l <"$one")" -eq 20 ] && [ "$(wc -l <"$test")" -eq 2 ] && ! cmp -s "$one" "$two" && [ "$(cat "$one" "$two" | grep -cFf "$test")" -eq 0 ]
result $? "rows of a recipe: $(head -n 3 "$one" "$two" "$test")"

printf 'x' >>"$read"
expect 2 "rows_read.hashes: is damaged" compare "$place/compare.yaml" out="$place/idle"
[ ! -e "$place/idle" ]
result $? "a comparison that was refused left a folder"
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
