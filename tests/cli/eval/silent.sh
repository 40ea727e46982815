#!/bin/sh
# metier eval: nothing goes wrong without a word. Answers that end early, rows and tasks that are not there, verdicts of
# another judge, folders that were asked in another way. Usage: silent.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
share=$(cd "$(dirname "$0")/../../../share" && pwd)
samples=$share/samples
model=$share/models/tiny-deepseek-v2
failed=0

fail() { printf 'silent.sh: %s\n' "$*"; failed=1; }
# evaluate WANTED_STATUS ARGUMENT...
evaluate() {
    wanted=$1
    shift
    "$metier" eval "$@" --quiet >"$folder/table" 2>"$folder/err"
    status=$?
    [ $status -eq "$wanted" ] || { cat "$folder/err"; fail "status $status instead of $wanted: eval $*"; }
}
said() { grep -qF -- "$1" "$folder/err" || { cat "$folder/err"; fail "not said: $1"; }; }
silent() { [ ! -s "$folder/err" ] || { cat "$folder/err"; fail "said something: $1"; }; }
shown() { grep -q -- "$1" "$folder/table" || { cat "$folder/table"; fail "not in the table: $1"; }; }
noted() { grep -qF -- "$2" "$folder/$1" || { cat "$folder/$1"; fail "not in $1: $2"; }; }

# Answers cut at the limit, empty ones, thoughts that do not end: counted in samples, results, table, page, and said.
cat >"$folder/early" <<'END'
{"task": "gsm8k_chat", "id": "0", "answer": "<think>6 bags, so", "finish_reason": "length"}
{"task": "gsm8k_chat", "id": "1", "answer": " "}
{"task": "gsm8k_chat", "id": "2", "answer": "<think>5?</think> 1000"}
END
evaluate 0 gsm8k_chat --data "$samples" --answers "$folder/early" --out "$folder/ends"
said 'task gsm8k_chat: 1 of 3 answers were cut at 512 tokens or for want of room: --max-new'
said "task gsm8k_chat: 1 of 3 answers end before the model's thinking does"
said 'task gsm8k_chat: 1 of 3 answers are empty'
shown '1 cut, 1 still thinking, 1 empty'
noted ends/results.json '"cut,none": 1, "empty,none": 1, "unclosed,none": 1'
grep -q '"id": "0".*"cut": 1, "unclosed": 1}' "$folder/ends/samples_gsm8k_chat.jsonl" || fail "the cut sample"
grep -q '"id": "1".*"empty": 1}' "$folder/ends/samples_gsm8k_chat.jsonl" || fail "the empty sample"
grep '"id": "2"' "$folder/ends/samples_gsm8k_chat.jsonl" | grep -q '"cut"\|"empty"\|"unclosed"' && fail "a whole sample"
"$metier" report "$folder/ends" --out "$folder/page" >/dev/null || fail "a page"
noted page '1 answer cut at the limit of tokens, 1 answer that ends within its thoughts, 1 empty answer'
# Going on counts the same.
evaluate 0 gsm8k_chat --data "$samples" --answers "$folder/early" --out "$folder/ends"
shown '1 cut, 1 still thinking, 1 empty'
evaluate 0 gsm8k_chat --data "$samples" --model "$model" --max-new 1 --out "$folder/short"
said 'task gsm8k_chat: 3 of 3 answers were cut at 1 tokens'
shown '3 cut$'

# A chat template that thinks: answers get room, unless --max-new or the template's option says otherwise; what the
# prompt has opened and the answer does not close is counted.
mkdir "$folder/thinker"
cp "$model"/* "$folder/thinker"
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}{% if add_generation_prompt %}assistant: <think>{% endif %}' \
    >"$folder/thinker/chat_template.jinja"
"$metier" eval gsm8k_chat --limit 1 --data "$samples" --model "$folder/thinker" --template model --out "$folder/thinks" \
    >"$folder/table" 2>"$folder/err" || { cat "$folder/err"; fail "a model that thinks"; }
said 'answers: up to 8192 tokens, as far as the context goes, because the chat template thinks (<think>); --max-new'
said "task gsm8k_chat: 1 of 1 answers end before the model's thinking does"
noted thinks/results.json '"max_gen_toks": 8192'
evaluate 0 gsm8k_chat --limit 1 --data "$samples" --model "$folder/thinker" --template model --max-new 9 --out "$folder/told"
noted told/results.json '"max_gen_toks": 9}'
evaluate 0 gsm8k_chat --limit 1 --data "$samples" --model "$folder/thinker" --template model --template-option enable_thinking=false \
    --out "$folder/unthinking"
noted unthinking/results.json '"max_gen_toks": 512'

# Rows that cannot be used; none that can.
mkdir "$folder/data"
cat >"$folder/some.yaml" <<'END'
title: some
domain: science
data: some.jsonl
kind: choose
prompt: "{question.stem}"
choice_list: question.choices.text
choice_label_list: question.choices.label
answer: "{answerKey}"
stop: ["\n"]
END
cat >"$folder/data/some.jsonl" <<'END'
{"question": {"stem": "Sky?", "choices": [{"text": "red", "label": "A"}, {"text": "blue", "label": "B"}]}, "answerKey": "B"}
{"question": {"stem": "Grass?", "choices": [{"text": "green", "label": "1"}, {"text": "pink", "label": "2"}]}, "answerKey": ""}
{"question": {"stem": "Sun?", "options": ["hot"]}, "answerKey": "A"}
END
evaluate 0 "$folder/some.yaml" --data "$folder/data" --model "$model" --out "$folder/some"
said "task some: 2 rows of $folder/data/some.jsonl left out: line 2: there is no right answer; line 3: there is no field 'question.choices.text' (the row has question.stem, question.options, answerKey)"
shown '^some *1 '
noted some/results.json '"dropped_rows,none": 2, "unanswered_rows,none": 1'
"$metier" report "$folder/some" --out "$folder/page" >/dev/null || fail "a page"
noted page '2 rows left out'
"$metier" eval "$folder/some.yaml" --data "$folder/data" --questions "$folder/questions" 2>"$folder/err" || fail "questions"
said 'task some: 2 rows of'
sed '1d' "$folder/data/some.jsonl" >"$folder/rows" && cp "$folder/rows" "$folder/data/some.jsonl"
evaluate 2 "$folder/some.yaml" --data "$folder/data" --model "$model" --out "$folder/none"
said 'none of 2 rows can be used: line 1: there is no right answer; line 2: '
sed '/choice_label/d; s/choice_list: .*/choice_list: options/; /^unanswered/d; $aunanswered: leave_out' "$folder/some.yaml" >"$folder/meant.yaml"
printf '{"question": {"stem": "Q"}, "options": ["x", "y"], "answerKey": "%s"}\n' A '' B >"$folder/data/some.jsonl"
evaluate 0 "$folder/meant.yaml" --data "$folder/data" --model "$model" --out "$folder/meant"
silent "of rows that are left out on purpose"
noted meant/results.json '"dropped_rows,none": 1, "unanswered_rows,none": 1'

# Rows of examples that cannot be looked at, prompts that are cut, tasks without data, answers to nothing: said, and noted.
sed '$afew_shot: 1\nfew_shot_data: shots.jsonl\nfew_shot_rows: kind is good' "$folder/meant.yaml" >"$folder/shots.yaml"
printf '{"question": {"stem": "P"}, "options": ["x", "y"], "answerKey": "A", "%s": "good"}\n' kind sort sort >"$folder/data/shots.jsonl"
evaluate 0 "$folder/shots.yaml" gsm8k_chat --skip-missing --data "$folder/data" --model "$model" --context 3 --out "$folder/shots"
said "task shots: 2 rows of few_shot_data left out: line 2: there is no field 'kind', by which rows are chosen"
said 'task shots: 2 prompts were too long and cut at the beginning: --context gives more room'
shown '2 with a cut prompt'
noted shots/results.json '"cut_prompts,none": 2, "dropped_rows,none": 1, "unanswered_rows,none": 1, "dropped_examples,none": 2'
noted shots/results.json '"tasks_without_data": 1'
"$metier" report "$folder/shots" --out "$folder/page" >/dev/null || fail "a page"
noted page '2 prompts cut at the beginning, 1 row left out'
noted page '2 rows of examples left out'
evaluate 0 "$folder/shots.yaml" gsm8k_chat --skip-missing --data "$folder/data" --model "$model" --context 3 --out "$folder/shots"
said '2 prompts were too long'
{ cat "$folder/early" && echo '{"task": "gsm8k", "id": "0", "answer": "1"}'; } >"$folder/astray"
evaluate 0 gsm8k_chat --data "$samples" --answers "$folder/astray" --out "$folder/astray-out"
said '1 answer matches no question of these tasks'
noted astray-out/results.json '"unmatched_answers": 1'

# No data at all.
evaluate 2 gsm8k_chat math500 --skip-missing --data "$folder" --model "$model" --out "$folder/nodata"
said "$folder: has no data for gsm8k_chat, nor for any other of the tasks; no question was asked"
"$metier" eval gsm8k_chat --skip-missing --data "$folder" --questions - >/dev/null 2>&1 && fail "no questions are no failure"

# Verdicts of another judge: the same answers are judged again, nothing is asked, and that is said.
cp "$share/tasks/gsm8k_chat.yaml" "$folder/own.yaml"
cat >"$folder/answers" <<'END'
{"task": "own", "id": "0", "answer": "18 #### 7"}
{"task": "own", "id": "1", "answer": "#### 30"}
{"task": "own", "id": "2", "answer": "#### 5"}
END
own() { evaluate 0 "$folder/own.yaml" --data "$samples" --answers "$folder/answers" --out "$folder/own"; }
own
silent "the first time"
own
silent "when the judge is the same"
sed -i.bak 's/\[number\]/[{first_regex: "[0-9]+"}]/' "$folder/own.yaml"
own
said 'task own: the answers to 3 questions are judged again, as rules '
said 'task version 3, keys '
shown '^of 3 samples, 0 judged now and 3 before$'
grep -q '"id": "0".*"filtered_resps": \["18"\]' "$folder/own/samples_own.jsonl" || fail "judged by the new way"
grep -q '"id": "0".*"filtered_resps": \["7"\]' "$folder/own/samples_own.jsonl" || fail "the old verdict is lost"
own
silent "once it was judged again"
sed 's/^version: .*/version: 4/' "$folder/own.yaml" >"$folder/new" && cp "$folder/new" "$folder/own.yaml"
own
said 'task version 4'
said 'task version 3'
# Verdicts that nobody signed are of a version that did not.
sed 's/, "judged_by": "[^"]*"//' "$folder/own/samples_own.jsonl" >"$folder/unsigned" && cp "$folder/unsigned" "$folder/own/samples_own.jsonl"
own
said 'nobody noted who judged them'
# Another limit or other stop texts are another question.
sed 's/^stop: .*/stop: ["\\n\\n"]/' "$folder/own.yaml" >"$folder/new" && cp "$folder/new" "$folder/own.yaml"
own
said 'answers were given in'
said 'are asked again'
noted own/results.json '"judging_rules": "'
# Choices: from their log-likelihoods.
evaluate 0 mmlu_astronomy --data "$samples" --model "$model" --out "$folder/choices"
cp "$folder/choices/results.json" "$folder/before"
sed 's/"judged_by": "rules [0-9a-f]*/"judged_by": "rules 000000000000/' "$folder/choices/samples_mmlu_astronomy.jsonl" >"$folder/rows"
cp "$folder/rows" "$folder/choices/samples_mmlu_astronomy.jsonl"
evaluate 0 mmlu_astronomy --data "$samples" --model "$model" --out "$folder/choices"
said 'are judged again, as rules '
said '(before: rules 000000000000, '
half=$(wc -l <"$folder/rows")
sort -u "$folder/choices/samples_mmlu_astronomy.jsonl" | grep -vc 'rules 000000000000' | grep -qx "$half" || fail "as many new lines"
grep -h -o '"log_likelihoods".*"gold": [0-9]*' "$folder/choices/samples_mmlu_astronomy.jsonl" | sort | uniq -c | awk '$1 != 2 { exit 1 }' ||
    fail "log-likelihoods became others"

# A folder that was asked in another way: the setting, both values, and what to do. Beginning again loses nothing.
evaluate 0 gsm8k_chat --data "$samples" --model "$model" --max-new 12 --seed 3 --temperature 0.5 --out "$folder/way"
evaluate 2 gsm8k_chat --data "$samples" --model "$model" --max-new 32 --seed 3 --temperature 0.5 --out "$folder/way"
said "way was evaluated with --max-new 12; you asked for 32. Use another --out, or --again"
evaluate 2 gsm8k_chat --data "$samples" --model "$model" --seed 3 --temperature 0.7 --out "$folder/way"
said 'with --max-new 12; you asked for none; and with --temperature 0.5; you asked for 0.7.'
evaluate 2 gsm8k_chat --data "$samples" --model "$share/models/tiny-mixtral" --max-new 12 --seed 3 --temperature 0.5 --out "$folder/way"
said "with --model $model; you asked for $share/models/tiny-mixtral"
evaluate 2 gsm8k_chat --data "$samples" --answers "$folder/early" --out "$folder/way"
said 'with answers of a model; you asked for of a file'
cp "$folder/way/samples_gsm8k_chat.jsonl" "$folder/first"
evaluate 0 gsm8k_chat --data "$samples" --model "$model" --max-new 32 --seed 3 --temperature 0.5 --out "$folder/way" --again
said "--again: what was in $folder/way is now in $folder/way/before-1"
cmp -s "$folder/first" "$folder/way/before-1/samples_gsm8k_chat.jsonl" || fail "--again lost samples"
[ -f "$folder/way/before-1/source.json" ] && [ -f "$folder/way/before-1/results.json" ] || fail "--again lost a file"
grep -q '^of 3 samples' "$folder/table" && fail "--again took over old samples"
evaluate 0 gsm8k_chat --data "$samples" --model "$model" --max-new 32 --seed 3 --temperature 0.5 --out "$folder/way" --again
[ -f "$folder/way/before-2/samples_gsm8k_chat.jsonl" ] || fail "--again twice"

# Two answers to one question: one of them was judged, and nobody knew which.
sed -n '1p;1p;2,$p' "$folder/early" >"$folder/twice"
evaluate 2 gsm8k_chat --data "$samples" --answers "$folder/twice" --out "$folder/twofold"
said 'twice:2: line 1 answers the same question (task and id)'

exit $failed
