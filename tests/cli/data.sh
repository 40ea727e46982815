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
for words in "steps=30" "steps=0 epochs=1" "seed=7"; do
    # shellcheck disable=SC2086
    expect 0 "64 bad rows" train "$config" data.path="$place/mixed.jsonl" --dry-run $words
    said 4 "warning:"
    grep -q "mixed.jsonl:2: message 1 has the role 'narrator1'; .*; 30 rows like this are skipped" "$place/text"
    result $? "the role of 30 rows is not told of as one kind"
    grep -q "mixed.jsonl:62: .*image_url.*; 30 rows like this are skipped" "$place/text" &&
        grep -q "mixed.jsonl:122: .*('problem, solution').*data.sources\[\].fields.*; 3 rows like this are skipped" "$place/text" &&
        grep -q "mixed.jsonl:134: not valid JSON.*; this row is skipped" "$place/text"
    result $? "a kind of bad rows is not told of with its count and its first place"
    [ "$(sed -n 's/.*mixed.jsonl:\([0-9]*\): .*skipped$/\1/p' "$place/text" | xargs)" = "2 62 122 134" ]
    result $? "bad rows are not told of in the order of the file"
done
expect 0 "as trained" train "$config" data.path="$place/mixed.jsonl" out="$place/mixed"
said 1 "narrator"
for seed in 0 7; do
    expect 2 "mixed.jsonl:2: " train "$config" data.path="$place/mixed.jsonl" data.bad_rows=stop out="$place/stopped" seed=$seed
    expect 2 "mixed.jsonl:2: " train "$config" data.path="$place/mixed.jsonl" data.bad_rows=stop out="$place/stopped" seed=$seed evaluation.split=0.5
done

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
expect 2 "bad.jsonl: none of its 50 rows can be used; for 50 the reason is:" train "$place/two.yaml"
grep -q "bad.jsonl:1: the fields of the row ('problem, solution').*data.sources\[\].fields" "$place/text"
result $? "the reason and the key are not named"
[ ! -e "$place/none/adapter" ]
result $? "the run went on"
sed "s|, $place/bad.jsonl|, {path: $place/bad.jsonl, fields: 'question=problem,answer=solution'}|" "$place/two.yaml" >"$place/mapped.yaml"
expect 0 "170 examples" train "$place/mapped.yaml" --dry-run
awk 'BEGIN { for (i = 0; i < 5; i++) print "{\"prompt\": \"one two three four five six seven eight nine ten eleven twelve\", \"completion\": \"2\"}" }' >"$place/long.jsonl"
expect 2 "long.jsonl: none of its 5 rows has an answer within data.max_length" train "$config" data.path="$place/long.jsonl" data.max_length=4

# Rows that lose their end to data.max_length: many of them are a warning, a few are what the limit is for.
for long in 10 2; do
    awk -v long=$long 'BEGIN { for (i = 0; i < 50; i++) print "{\"prompt\": \"1\", \"completion\": \"" (i < long ? "2 3 4 5 6 7 8 9 1 2 3 4 5 6" : "2") "\"}" }' >"$place/cut.jsonl"
    expect 0 "of 50 rows drawn, $long were truncated to data.max_length" train "$config" data.path="$place/cut.jsonl" data.max_length=8 \
        steps=0 epochs=1 evaluation.every=0 out="$place/cut-$long"
    kind=data
    [ "$long" -lt 5 ] || kind=warning
    grep -q "\"event\": *\"$kind\".*of 50 rows drawn, $long were truncated" "$place/cut-$long/metrics.jsonl"
    result $? "$long of 50 rows that were cut are no $kind"
done

# Prompts to answer are read the same way.
printf '%s\n' '{"messages": [{"role": "user", "content": [{"type": "text", "text": "1 plus"}]}]}' \
    '{"prompt": [{"role": "user", "content": "1 plus"}]}' '{"prompt": "1 plus"}' >"$place/prompts.jsonl"
expect 0 "" generate "$place/model" --template chatml --in "$place/prompts.jsonl" --out "$place/answers.jsonl" --max-new 4
[ "$(sed 's/"index": [0-9]*//' "$place/answers.jsonl" | sort -u | wc -l)" -eq 1 ]
result $? "the same prompt in three forms has different answers"
printf '%s\n' '{"messages": [{"role": "user", "content": [{"type": "image"}]}]}' >"$place/picture.jsonl"
expect 2 "picture.jsonl:1: message 1 has a part of the type 'image': only text can be read" generate "$place/model" --template chatml --in "$place/picture.jsonl"

# One row, in words for one.
expect 2 "picture.jsonl: its only row cannot be used: $place/picture.jsonl:1: " train "$config" data.path="$place/picture.jsonl"
printf '{"prompt": "1 2 3 4 5 6 7 8 9", "completion": "2"}\n' >"$place/one.jsonl"
expect 2 "one.jsonl: its only row has no answer within data.max_length" train "$config" data.path="$place/one.jsonl" data.max_length=4

# The model's own template is used unless another is named; a model without one gets `plain`, and a warning.
cat >"$place/talk.jsonl" <<'END'
{"messages": [{"role": "user", "content": "1 <｜end▁of▁sentence｜>"}, {"role": "assistant", "content": "2 3"}]}
END
expect 0 "the model has no chat template of its own" train "$config" data.path="$place/talk.jsonl" --dry-run
grep -qF "1 <｜end▁of▁sentence｜>[[2 3<｜end▁of▁sentence｜>]]" "$place/text"
result $? "the plain example is not shown with what is trained on marked"
said 1 "warning:"
expect 0 "an example, as the model will see it" train "$config" --dry-run
said 0 "warning:"
cp -r "$place/model" "$place/own"
printf '{"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}' >"$place/own/tokenizer_config.json"
printf '%s' "{{ bos_token }}{% for m in messages %}{{ '(' + m.role + ')' + m.content + eos_token }}{% endfor %}{% if add_generation_prompt %}{{ '(assistant)' }}{% endif %}{% if loud %}{{ '!' }}{% endif %}" >"$place/own/chat_template.jinja"
expect 0 "" train "$config" model="$place/own" data.path="$place/talk.jsonl" data.max_length=64 --dry-run
grep -qF "(user)1 <｜end▁of▁sentence｜><｜end▁of▁sentence｜>(assistant)[[2 3<｜end▁of▁sentence｜>]]" "$place/text"
result $? "the model's own template is not used"
said 0 "warning:"
expect 0 "]]!" train "$config" model="$place/own" data.path="$place/talk.jsonl" data.max_length=64 data.template_options=loud=true --dry-run
expect 0 "<|im_start|>, <|im_end|>, for which the tokenizer has no token" train "$config" model="$place/own" data.path="$place/talk.jsonl" data.max_length=128 batch.tokens=128 data.template=chatml --dry-run
cp "$place/own/chat_template.jinja" "$place/mine.jinja"
expect 0 "[[2 3<｜end▁of▁sentence｜>]]" train "$config" model="$place/own" data.path="$place/talk.jsonl" data.max_length=64 data.template="$place/mine.jinja" --dry-run
expect 2 "there is no chat template 'nothing'" train "$config" data.template=nothing --dry-run
printf '%s' "{% for m in messages %}{{ m.content }}{% endfor" >"$place/broken.jinja"
expect 2 "broken.jinja, line 1" train "$config" data.template="$place/broken.jinja" --dry-run
# What a downloaded template raises is told, and drives no terminal: escape sequences, C1 controls, marks of direction.
printf '%s' "{{ raise_exception('\x1b[2J\x1b]0;owned\x07 \u009b31m \u202e raised') }}" >"$place/raising.jinja"
expect 2 "raised" train "$config" data.path="$place/talk.jsonl" data.bad_rows=stop data.template="$place/raising.jinja" --dry-run
"$metier" train "$config" data.path="$place/talk.jsonl" data.bad_rows=stop data.template="$place/raising.jinja" --dry-run >"$place/raised" 2>&1
LC_ALL=C grep -q -e "$(printf '\033')" -e "$(printf '\007')" -e "$(printf '\302\233')" -e "$(printf '\342\200\256')" "$place/raised"
[ $? -eq 1 ]
result $? "a template drives the terminal: $(od -c "$place/raised" | head -n 5)"
expect 2 "must read as name=value" train "$config" model="$place/own" data.template_options=loud --dry-run
expect 2 "is not a date" train "$config" model="$place/own" data.template_date=today --dry-run
expect 2 "data.template_options means nothing here: the data.template that is named has neither options nor dates" train "$config" data.template=chatml data.template_options=a=b --dry-run
expect 0 "data.template_options changes nothing: the model has no chat template" train "$config" data.template_options=a=b --dry-run

# Trained on, and carried on: the same bytes after a stop, the template in what a full run writes.
expect 0 "as trained" train "$config" model="$place/own" data.path="$place/talk.jsonl" data.max_length=64 out="$place/talked" steps=6
expect 0 "as trained" train "$config" model="$place/own" data.path="$place/talk.jsonl" data.max_length=64 out="$place/full" steps=2 train=full
same own/chat_template.jinja full/model/chat_template.jinja
same own/chat_template.jinja talked/adapter/chat_template.jinja
printf '%s' "{% for m in messages %}{{ '[' + m.content + eos_token }}{% endfor %}{% if add_generation_prompt %}{{ '[' }}{% endif %}" >"$place/short.jinja"
expect 0 "as trained" train "$config" model="$place/own" data.path="$place/talk.jsonl" data.max_length=64 data.template="$place/short.jinja" out="$place/short" steps=2
same short.jinja short/adapter/chat_template.jinja
expect 0 "as trained" train "$config" model="$place/own" data.path="$place/talk.jsonl" data.max_length=64 data.template="$place/short.jinja" out="$place/shortfull" steps=2 train=full
same short.jinja shortfull/model/chat_template.jinja

# Prompts: the same template, the same ids as in training.
expect 0 '"prompt_tokens": ' generate "$place/own" --in "$place/prompts.jsonl" --max-new 2
[ "$(sed 's/"index": [0-9]*//' "$place/text" | grep -c prompt_tokens)" -eq 3 ] && [ "$(grep prompt_tokens "$place/text" | sed 's/"index": [0-9]*//' | sort -u | wc -l)" -eq 1 ]
result $? "a prompt is not what a user says by default"
talked=$(sed -n '3s/.*"prompt_tokens": \([0-9]*\).*/\1/p' "$place/text")
printf '{"prompt": "1 plus"}\n' >"$place/plain.jsonl"
expect 0 '"prompt_tokens": ' generate "$place/own" --template none --in "$place/plain.jsonl" --max-new 2
[ "$(sed -n 's/.*"prompt_tokens": \([0-9]*\).*/\1/p' "$place/text")" -lt "$talked" ]
result $? "--template none still writes a conversation"
expect 0 '"prompt_tokens": ' generate "$place/own" --adapter "$place/short/adapter" --in "$place/plain.jsonl" --max-new 2
[ "$(sed -n 's/.*"prompt_tokens": \([0-9]*\).*/\1/p' "$place/text")" -lt "$talked" ]
result $? "the template an adapter was trained with is not used with it"
expect 0 "<|im_start|>, <|im_end|>, for which the tokenizer has no token" generate "$place/own" --prompt x --template chatml --max-new 2
expect 0 '"prompt_tokens": ' generate "$place/own" --in "$place/plain.jsonl" --template-option loud=true --max-new 2
expect 2 "--bos is for plain texts (--template none)" generate "$place/own" --prompt x --bos yes
printf 'hi\n' | "$metier" chat "$place/own" --max-new 3 >"$place/text" 2>&1
result $? "chat without --template"
said 0 "warning:"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
