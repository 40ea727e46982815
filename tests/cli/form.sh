#!/bin/sh
# The text that was trained is the text that is evaluated, from outside: a run on a model without a chat template writes down
# the form it trained with; eval, generate, chat, compare, a merged model and an adapter in another layout use it and say so.
# Usage: form.sh METIER
set -u
metier=$1
share=$(cd "$(dirname "$0")/../../share" && pwd)
model=$share/models/small-deepseek-v2
. "$(dirname "$0")/../support/expect.sh"
printf 'x' >"$place/chart.js"
cat >"$place/run.yaml" <<END
model: $model
steps: 30
batch: {examples: 4, tokens: 512}
optimizer: {lr: 3e-3}
lora: {rank: 8, alpha: 16, dropout: 0}
checkpoint: {every: 0}
log: {measure_every: 0}
device: cpu
threads: 1
END

# train NAME ROWS WORDS...: a short run.
train() {
    name=$1
    rows=$2
    shift 2
    expect 0 "as trained" train "$place/run.yaml" out="$place/$name" data.path="$rows" data.max_length=128 "$@"
}

# likelihood OUT: of the first sample's right answer.
likelihood() {
    sed -n '1s/.*"log_likelihoods": \[\([-0-9.e]*\), \([-0-9.e]*\)\].*"gold": \([01]\).*/\3 \1 \2/p' "$place/$1/samples_open_sst2.jsonl" |
        awk '{ print $($1 + 2) }'
}

# A task that leaves its form open: the run's own counts.
sed '/^form:/d' "$share/tasks/glue_sst2.yaml" >"$place/open_sst2.yaml"

# evaluate OUT WORDS...: that task, of the samples.
evaluate() {
    out=$1
    shift
    expect 0 "open_sst2" eval "$place/open_sst2.yaml" --data "$share/samples" --out "$place/$out" --threads 1 --no-routing "$@"
}

expect 0 "written:" recipe glue_sst2 --data "$share/samples" --out "$place/rows.jsonl"
train run "$place/rows.jsonl"
for folder in run run/adapter; do
    grep -q '"template": "plain"' "$place/$folder/text_form.json"
    result $? "$folder does not say how it was trained"
done

# Another tokenizer than the model's does not travel: that is told before the run.
expect 0 "the run reads its texts with the tokenizer of $model, but what it writes is used with the model's own" train \
    "$place/run.yaml" out="$place/words" data.path="$place/rows.jsonl" tokenizer="$model" --dry-run

# What was trained is evaluated: the right answer is likely, as --template plain finds it, and as plain text it is not.
evaluate own --model "$model" --adapter "$place/run/adapter"
grep -q '^form: plain, because the run was trained with it (.*/run/adapter/text_form.json)$' "$place/text"
result $? "the form is not told of"
evaluate told --model "$model" --adapter "$place/run/adapter" --template plain
same own/samples_open_sst2.jsonl told/samples_open_sst2.jsonl "the run's form and --template plain"
evaluate other --model "$model" --adapter "$place/run/adapter" --template none
grep -q 'warning: open_sst2 is put as none (--template says so), and the run was trained as plain' "$place/text"
result $? "another form than that of the run is not warned of"
awk "BEGIN { exit !($(likelihood own) > $(likelihood other) + 8) }"
result $? "the right answer's log-likelihood is $(likelihood own), as plain text $(likelihood other)"
for file in own:plain:'the run was trained with it' other:none:'--template says so'; do
    form=${file#*:}
    grep -q "\"form\": \"${form%%:*}\", \"form_why\": \"${form#*:}\", \"trained_form\": \"plain\"" "$place/${file%%:*}/results.json"
    result $? "results.json of ${file%%:*} does not record the form"
    grep -q "\"form\": \"${form%%:*}\"" "$place/${file%%:*}/samples_open_sst2.jsonl"
    result $? "samples of ${file%%:*} do not record the form"
done
expect 2 "was evaluated with --template plain; you asked for none" eval "$place/open_sst2.yaml" --data "$share/samples" --out "$place/own" --threads 1 --no-routing --model "$model" \
    --adapter "$place/run/adapter" --template none

# A task that fixes its text keeps it, and says so where the run was trained otherwise: terminal, results, page.
expect 0 "glue_sst2 is put as none (the task fixes its text), and the run was trained as plain" eval "$place/open_sst2.yaml" glue_sst2 \
    --data "$share/samples" --out "$place/fixed" --threads 1 --no-routing --model "$model" --adapter "$place/run/adapter"
grep -q '"form_warning": "put as none (the task fixes its text), and the run was trained as plain"' "$place/fixed/results.json"
result $? "results.json has no warning"
same own/samples_open_sst2.jsonl fixed/samples_open_sst2.jsonl "a task beside one that fixes its text"
evaluate base --model "$model"
expect 0 "glue_sst2" eval glue_sst2 --data "$share/samples" --out "$place/alone" --threads 1 --no-routing --model "$model" \
    --adapter "$place/run/adapter"
same alone/samples_glue_sst2.jsonl fixed/samples_glue_sst2.jsonl "a task that fixes its text, beside others"
expect 0 "bytes" report "$place/fixed" --out "$place/page.html" --chart-js "$place/chart.js"
grep -q 'Asked in another form than trained' "$place/page.html" && grep -q 'the run was trained with it' "$place/page.html"
result $? "the page does not say which form and why"

# It travels: away from its run, into a merged model, into another layout; and a record-less adapter says that it is.
cp -r "$place/run/adapter" "$place/moved"
evaluate moved-eval --model "$model" --adapter "$place/moved"
same own/samples_open_sst2.jsonl moved-eval/samples_open_sst2.jsonl "a moved adapter"
expect 0 "" merge "$model" --adapter "$place/moved" --out "$place/merged" --dtype f32
evaluate merged-eval --model "$place/merged"
grep -q '^form: plain, because the run was trained with it' "$place/text"
result $? "a merged model has lost its form"
expect 0 "" adapter "$place/moved" --model "$model" --layout per-expert --out "$place/layout"
cmp -s "$place/moved/text_form.json" "$place/layout/text_form.json"
result $? "another layout has lost the form"
rm "$place/moved/text_form.json" "$place/moved/chat_template.jinja"
evaluate lost --model "$model" --adapter "$place/moved"
grep -q '^form: none, because no record of the form the adapter was trained in' "$place/text"
result $? "an adapter without a record says nothing"
expect 0 "" merge "$place/merged" --adapter "$place/moved" --out "$place/twice" --dtype f32
[ ! -e "$place/twice/text_form.json" ]
result $? "a merged model has the record of its base, which the adapter was not trained in"
printf '{"text_form": 1, "template": "../x", "rows": "answers"}' >"$place/moved/text_form.json"
expect 2 "does not name a template" eval "$place/open_sst2.yaml" --data "$share/samples" --out "$place/bad" --model "$model" --adapter "$place/moved"
expect 2 "does not name a template" generate "$model" --adapter "$place/moved" --prompt x

# Adapters of versions that had files of keys: the template of that name; a file of one's own is refused, however it is named.
printf '{"text_form": 1, "template": "plain", "keys": "start = ...", "rows": "answers"}' >"$place/moved/text_form.json"
evaluate keys --model "$model" --adapter "$place/moved"
same own/samples_open_sst2.jsonl keys/samples_open_sst2.jsonl "an adapter with a file of keys"
printf '{"text_form": 1, "template": "mine.tmpl", "keys": "start = ...", "rows": "answers"}' >"$place/moved/text_form.json"
for words in "eval $place/open_sst2.yaml --data $share/samples --out $place/bad --model $model --adapter $place/moved" \
    "generate $model --prompt x --template mine.tmpl" "train $place/run.yaml out=$place/bad data.path=$place/rows.jsonl data.template=mine.tmpl"; do
    # shellcheck disable=SC2086
    expect 2 "mine.tmpl is a file of keys, which metier no longer reads. Write a file NAME.jinja instead" $words
done

# generate and chat ask in it, too: a prompt is what a user says.
prompt=$(sed -n '1s/^{"prompt": "\(.*\)", "completion.*/\1/p' "$place/rows.jsonl")
printf '{"prompt": "%s"}\n{"messages": [{"role": "user", "content": "%s"}]}\n' "$prompt" "$prompt" >"$place/prompts.jsonl"
expect 0 "form: plain, because the run was trained with it" generate "$model" --adapter "$place/run/adapter" \
    --in "$place/prompts.jsonl" --out "$place/out.jsonl" --max-new 4 --threads 1
[ "$(grep -c . "$place/out.jsonl")" -eq 2 ] && [ "$(sed 's/"index": [0-9]*//' "$place/out.jsonl" | sort -u | grep -c .)" -eq 1 ]
result $? "a prompt and the same as a message have other answers"
printf 'hello\n' >"$place/in"
"$metier" chat "$model" --adapter "$place/run/adapter" --max-new 2 --threads 1 <"$place/in" >"$place/text" 2>&1
grep -q '^form: plain, because the run was trained with it' "$place/text" && ! grep -q 'no chat template of its own' "$place/text"
result $? "chat does not use the run's form"

# Answers that began with a space are asked with it; whole texts as texts; a file of one's own comes along.
sed 's/"completion": "/"completion": " /' "$place/rows.jsonl" >"$place/spaced.jsonl"
train spaced "$place/spaced.jsonl"
grep -q '"space": true' "$place/spaced/adapter/text_form.json"
result $? "answers that begin with a space are not noted"
evaluate spaced-eval --model "$model" --adapter "$place/spaced/adapter"
awk "BEGIN { exit !($(likelihood spaced-eval) > $(likelihood other) + 8) }"
result $? "trained with a space: $(likelihood spaced-eval)"
sed 's/^{"prompt": "\(.*\)", "completion": "\([a-z]*\)".*/{"text": "\1 \2"}/' "$place/rows.jsonl" >"$place/texts.jsonl"
train texts "$place/texts.jsonl"
evaluate texts-eval --model "$model" --adapter "$place/texts/adapter"
grep -q '^form: none, because the run was trained on whole texts' "$place/text"
result $? "a run on texts is not asked so"
sed "s/{{- message.content -}}/{{- 'Here: ' + message.content -}}/" "$share/templates/plain.jinja" >"$place/mine.jinja"
train mine "$place/rows.jsonl" train=full data.template="$place/mine.jinja" optimizer.lr=1e-3
rm "$place/mine.jinja"
evaluate mine-eval --model "$place/mine/model"
grep -q '^form: mine.jinja, because the run was trained with it' "$place/text"
result $? "a template of one's own does not come along"
awk "BEGIN { exit !($(likelihood mine-eval) > $(likelihood other) + 8) }"
result $? "trained with a template of one's own: $(likelihood mine-eval)"

# A run before there were records has its settings.
rm "$place/run/text_form.json" "$place/run/adapter/text_form.json" "$place/run/adapter/chat_template.jinja"
evaluate older --model "$model" --adapter "$place/run/adapter"
grep -q '^form: plain, because the run was trained with it (.*/run/config.yaml)$' "$place/text"
result $? "an older run is not asked as it was trained"
same own/samples_open_sst2.jsonl older/samples_open_sst2.jsonl "an older run"

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
