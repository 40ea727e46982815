#!/bin/bash
# Training data from outside: conversations in every form, bad rows by kind, sources that are none. Usage: data.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

"$here/support/train-bench" "$metier" "$place" || exit 1
config=$place/run.yaml

# said N TEXT: the last output has the text on exactly N lines.
said() {
    [ "$(grep -cF -- "$2" "$place/text")" -eq "$1" ]
    result $? "expected $1 lines with \"$2\""
}

# Rows of many forms in one file, all of them good.
cat >"$place/forms.jsonl" <<'END'
{"messages": [{"role": "user", "content": [{"type": "text", "text": "1"}]}, {"role": "assistant", "content": "2"}]}
{"prompt": [{"role": "user", "content": "1"}], "completion": [{"role": "assistant", "content": "2"}]}
{"conversations": [{"from": "human", "value": "1"}, {"from": "gpt", "value": "2"}]}
{"instruction": "1", "input": "x", "output": "2"}
{"question": "1", "answer": "2"}
{"text": "1 2"}
END
expect 0 "6 examples" train "$config" data.path="$place/forms.jsonl" --dry-run
said 0 "bad rows"

# 120 good rows, 64 bad ones of four kinds: four warnings, with counts and first places.
awk '{ print } NR <= 30 { printf "{\"messages\": [{\"role\": \"narrator%d\", \"content\": \"x\"}]}\n", NR }
    NR > 30 && NR <= 60 { print "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}" }
    NR > 60 && NR <= 63 { print "{\"problem\": 1, \"solution\": 2}" }
    NR == 70 { print "nonsense" }' "$place/data.jsonl" >"$place/mixed.jsonl"
for words in "steps=30" "steps=0 epochs=1"; do
    # shellcheck disable=SC2086
    expect 0 "64 bad rows" train "$config" data.path="$place/mixed.jsonl" --dry-run $words
    said 4 "warning:"
    grep -q "mixed.jsonl:[0-9]*: message 1 has the role 'narrator[0-9]*'; .*; 30 rows like this are skipped" "$place/text"
    result $? "the role of 30 rows is not told of as one kind"
    grep -q "image_url.*; 30 rows like this are skipped" "$place/text" &&
        grep -q "('problem, solution').*data.sources\[\].fields.*; 3 rows like this are skipped" "$place/text" &&
        grep -q "not valid JSON.*; this row is skipped" "$place/text"
    result $? "a kind of bad rows is not told of with its count"
done
expect 0 "as trained" train "$config" data.path="$place/mixed.jsonl" out="$place/mixed"
said 1 "narrator"
expect 2 "mixed.jsonl:" train "$config" data.path="$place/mixed.jsonl" data.bad_rows=stop out="$place/stopped"

# A source without one good row ends the run, whatever others have.
awk 'BEGIN { for (i = 0; i < 50; i++) print "{\"problem\": \"1\", \"solution\": \"2\"}" }' >"$place/bad.jsonl"
cat >"$place/two.yaml" <<END
model: $place/model
out: $place/none
data:
  max_length: 32
  sources: [$place/data.jsonl, $place/bad.jsonl]
batch: {examples: 8, tokens: 64}
steps: 3
END
expect 2 "bad.jsonl: not one of its 50 rows can be used; of 50 this is true:" train "$place/two.yaml"
grep -q "bad.jsonl:1: the fields of the row ('problem, solution').*data.sources\[\].fields" "$place/text"
result $? "the reason and the key are not named"
[ ! -e "$place/none/adapter" ]
result $? "the run went on"
sed "s|, $place/bad.jsonl|, {path: $place/bad.jsonl, fields: 'question=problem,answer=solution'}|" "$place/two.yaml" >"$place/mapped.yaml"
expect 0 "170 examples" train "$place/mapped.yaml" --dry-run
awk 'BEGIN { for (i = 0; i < 5; i++) print "{\"prompt\": \"one two three four five six seven eight nine ten eleven twelve\", \"completion\": \"2\"}" }' >"$place/long.jsonl"
expect 2 "long.jsonl: not one of its 5 rows has an answer within data.max_length" train "$config" data.path="$place/long.jsonl" data.max_length=4

# Prompts to answer are read the same way.
printf '%s\n' '{"messages": [{"role": "user", "content": [{"type": "text", "text": "1 plus"}]}]}' \
    '{"prompt": [{"role": "user", "content": "1 plus"}]}' '{"prompt": "1 plus"}' >"$place/prompts.jsonl"
expect 0 "" generate "$place/model" --template chatml --in "$place/prompts.jsonl" --out "$place/answers.jsonl" --max-new 4
[ "$(sed 's/"index": [0-9]*//' "$place/answers.jsonl" | sort -u | wc -l)" -eq 1 ]
result $? "the same prompt in three forms has different answers"
printf '%s\n' '{"messages": [{"role": "user", "content": [{"type": "image"}]}]}' >"$place/picture.jsonl"
expect 2 "picture.jsonl:1: message 1 has a part of the type 'image': only text can be read" generate "$place/model" --template chatml --in "$place/picture.jsonl"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
