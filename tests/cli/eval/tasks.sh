#!/bin/sh
# metier eval from the outside: lists, questions, judging answers made elsewhere, refusals. Usage: tasks.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
samples=$(dirname "$0")/../../../share/samples
failed=0

fail() { printf 'tasks.sh: %s\n' "$*"; failed=1; }

"$metier" eval --list >"$folder/list" || fail "--list"
for task in gsm8k math500 numina mmlu mmlu_pro bbh glue livebench gpqa humaneval mbpp gsm8k_chat; do
    grep -q "^$task " "$folder/list" || fail "--list lacks $task"
done
"$metier" eval --keys | grep -q '^prompt ' || fail "--keys"

"$metier" eval gsm8k_chat mmlu_chat --skip-missing --data "$samples" --questions "$folder/questions" || fail "--questions"
[ "$(wc -l <"$folder/questions")" -eq 5 ] || fail "five questions were expected"

cat >"$folder/answers" <<END
{"task": "gsm8k_chat", "id": "0", "answer": "6 bags, so \$18. #### 18"}
{"task": "gsm8k_chat", "id": 1, "answer": "That is \\\\boxed{30}"}
{"task": "gsm8k_chat", "id": "2", "answer": "He owes 1,000 dollars."}
END
"$metier" eval gsm8k_chat --data "$samples" --answers "$folder/answers" --out "$folder/out" --quiet >"$folder/table" ||
    fail "judging"
grep -q 'gsm8k_chat .* exact_match,flexible *0.6667' "$folder/table" || { cat "$folder/table"; fail "two of three are right"; }
[ "$(wc -l <"$folder/out/samples_gsm8k_chat.jsonl")" -eq 3 ] || fail "three lines of samples"
grep -q '"exact_match,flexible": 0.666' "$folder/out/results.json" || fail "the summary"
# Beside a figure stand the strict one and the share of answers in the form that was asked for: one of three.
grep -q 'exact_match,strict *0.3333' "$folder/table" && grep -q 'in form,strict *0.3333' "$folder/table" ||
    { cat "$folder/table"; fail "the strict figure"; }
grep -q '"exact_match,strict": 0.333.*"in_form,flexible": 1, "in_form,strict": 0.333' "$folder/out/results.json" || fail "the share in form"
grep -q '"id": "0".*"in_form": \[true, true\]' "$folder/out/samples_gsm8k_chat.jsonl" || fail "an answer in form"
grep -q '"id": "2".*"in_form": \[true, false\]' "$folder/out/samples_gsm8k_chat.jsonl" || fail "an answer out of form"
"$metier" eval gsm8k_chat --data "$samples" --answers "$folder/answers" --out "$folder/out" --quiet >"$folder/table" || fail "going on"
grep -q 'in form,strict *0.3333' "$folder/table" || { cat "$folder/table"; fail "the share in form after going on"; }

# Tables and mappings: the first in another order and among words, the second with a value lost; one pair of two.
cat >"$folder/tables" <<'END'
{"task": "livebench_tablereformat", "id": "own-table-2", "answer": "```csv\nsails,boat,built,crew\n3,Anna,1911,NaN\n2,\"Gull, the\",1954,6\n1,Wren,1987,2\n```"}
{"task": "livebench_tablereformat", "id": "own-table-4", "answer": "boat\tsails\tbuilt\tcrew\nAnna\t3\t1911\t\nGull, the\t2\t1954\t\nWren\t1\t1987\t2.0"}
{"task": "livebench_tablejoin", "id": "own-join-1", "answer": "```python\n{'boat': 'name', 'built': 'year'}\n```"}
{"task": "livebench_tablejoin", "id": "own-join-2", "answer": "{'stop': 'station', 'zone': 'lift'}"}
END
for id in 1 3 5 6; do
    printf '{"task": "livebench_tablereformat", "id": "own-table-%d", "answer": "I cannot."}\n' $id >>"$folder/tables"
done
"$metier" eval livebench_tablereformat livebench_tablejoin --data "$samples" --answers "$folder/tables" \
    --out "$folder/judged" --quiet >"$folder/table" || fail "judging tables"
grep -q 'livebench_tablereformat .* exact_match *0.1667' "$folder/table" || { cat "$folder/table"; fail "one of six tables"; }
grep -q 'livebench_tablejoin .* score *0.7500' "$folder/table" || { cat "$folder/table"; fail "three of four pairs"; }

# An answer that loops, and a pattern that is quadratic: no verdict, which is counted, kept and said.
mkdir "$folder/tasks"
sed "s/\[number\]/[{regex: '(?m)^[^#%]*[#%](\\\\d+)'}]/" "$samples/../tasks/gsm8k_chat.yaml" >"$folder/tasks/gsm8k_chat.yaml"
{
    printf '{"task": "gsm8k_chat", "id": "0", "answer": "'
    yes '\n' | head -n 60000 | tr -d '\n'
    printf '18"}\n'
    sed '/"id": "0"/d' "$folder/answers"
} >"$folder/looping"
"$metier" eval "$folder/tasks/gsm8k_chat.yaml" --data "$samples" --answers "$folder/looping" --out "$folder/loop" --quiet \
    >"$folder/table" 2>"$folder/err" || { cat "$folder/err"; fail "judging an answer that loops"; }
grep -q 'task gsm8k_chat: 1 answer counts as wrong, unjudged' "$folder/err" || { cat "$folder/err"; fail "an answer without a verdict"; }
grep -q '"unjudged,none": 1' "$folder/loop/results.json" || fail "unjudged in the summary"
[ "$(grep -c '"unjudged": 1' "$folder/loop/samples_gsm8k_chat.jsonl")" -eq 1 ] || fail "unjudged in the samples"
"$metier" eval "$folder/tasks/gsm8k_chat.yaml" --data "$samples" --answers "$folder/looping" --out "$folder/loop" --quiet \
    >/dev/null 2>&1
grep -q '"unjudged,none": 1' "$folder/loop/results.json" || fail "unjudged after going on"

# Folders above the one of results are made. Answers to no question are named, whatever was asked before.
sed -e '$a {"task": "gsm8k_chat", "id": 7, "answer": "1"}' -e '$a {"task": "gsm8K", "id": "0", "answer": "1"}' \
    "$folder/answers" >"$folder/stray"
for limit in 1 3; do
    "$metier" eval gsm8k_chat --data "$samples" --answers "$folder/stray" --limit $limit --out "$folder/deep/er/out" --quiet \
        >"$folder/table" 2>"$folder/err" || { cat "$folder/err"; fail "answers to no question"; }
    grep -q 'stray: 2 answers match no question of these tasks: task gsm8k_chat, id 7; task gsm8K, id 0$' "$folder/err" ||
        { cat "$folder/err"; fail "answers to no question are not named"; }
done
grep -q "^written: $folder/deep/er/out/results.json" "$folder/table" || fail "where results went"
grep -q ' to 0.9385$' "$folder/table" || { cat "$folder/table"; fail "the end of a row"; }

# Answers of another length are another question to a model: noted where they go out.
"$metier" eval gsm8k_chat --data "$samples" --max-new 77 --questions - | grep -q '"max_tokens": 77}' || fail "--max-new"
"$metier" eval gsm8k_chat --data "$samples" --max-tokens 78 --questions - | grep -q '"max_tokens": 78}' || fail "--max-tokens"

# Nothing is asked again: the answers are not even needed.
: >"$folder/none"
"$metier" eval gsm8k_chat --data "$samples" --answers "$folder/none" --out "$folder/out" --quiet |
    grep -q 0.6667 || fail "continuing"

# Answers that have become others are named; a right answer that has, and a task that judges otherwise, judge anew.
sed 's/#### 18/#### 19/' "$folder/answers" >"$folder/changed"
cp "$folder/answers" "$folder/kept"
cat "$folder/changed" >"$folder/answers"
"$metier" eval gsm8k_chat --data "$samples" --answers "$folder/answers" --out "$folder/out" --quiet >/dev/null 2>"$folder/err" &&
    fail "changed answers are taken for the old ones"
grep -q 'answers: is not what it was when the answers in --out were made' "$folder/err" || { cat "$folder/err"; fail "changed answers"; }
cat "$folder/kept" >"$folder/answers"
mkdir "$folder/data"
cp -r "$samples/." "$folder/data"
cp "$(dirname "$0")/../../../share/tasks/gsm8k_chat.yaml" "$folder/own.yaml"
sed 's/"gsm8k_chat"/"own"/' "$folder/answers" >"$folder/own-answers"
judge_own() {
    "$metier" eval "$folder/own.yaml" --data "$folder/data" --answers "$folder/own-answers" --out "$folder/own" --quiet \
        >"$folder/table" 2>"$folder/err"
}
judge_own && grep -q 0.6667 "$folder/table" || { cat "$folder/err"; fail "a task of one's own"; }
file=$(sed -n 's/^data: *\[*\([^],]*\).*/\1/p' "$folder/own.yaml")
[ -f "$folder/data/$file" ] || file=$file.gz
case $file in *.gz) gunzip "$folder/data/$file"; file=${file%.gz} ;; esac
sed 's/#### 18/#### 17/' "$folder/data/$file" >"$folder/rows" && cat "$folder/rows" >"$folder/data/$file"
judge_own && grep -q 0.3333 "$folder/table" || { cat "$folder/table" "$folder/err"; fail "a right answer that has changed"; }
grep -q '^of 3 samples, 1 judged now and 2 before$' "$folder/table" || { cat "$folder/table"; fail "one sample is new"; }
sed 's/\[number\]/[boxed]/' "$folder/own.yaml" >"$folder/changed" && cat "$folder/changed" >"$folder/own.yaml"
judge_own || fail "a task that judges otherwise"
grep -q 'task own: the answers to 3 questions are judged again' "$folder/err" || { cat "$folder/err"; fail "judged again"; }

# A folder that somebody else is writing to: nothing is touched, and nothing of the lock is left.
ls -a "$folder/out" >"$folder/before"
flock "$folder/out" "$metier" eval gsm8k_chat --data "$samples" --answers "$folder/none" --out "$folder/out" --quiet \
    >/dev/null 2>"$folder/err" && fail "two in one folder"
grep -q 'out: another process is evaluating there' "$folder/err" || { cat "$folder/err"; fail "who is in the folder"; }
"$metier" eval gsm8k_chat --data "$samples" --answers "$folder/none" --out "$folder/out" --quiet >/dev/null ||
    fail "after the other one has ended"
ls -a "$folder/out" | cmp -s - "$folder/before" || fail "the lock left something behind"

"$metier" eval gsm8l --data "$samples" --questions - 2>"$folder/err" && fail "an unknown task"
grep -q "did you mean 'gsm8k'" "$folder/err" || fail "the nearest task"
"$metier" eval gsm8k_chat --data "$samples" 2>/dev/null && fail "neither answers nor questions"
"$metier" eval gsm8k_chat --data "$samples" --answers "$folder/none" --out "$folder/other" --quiet 2>"$folder/err" &&
    fail "an answer is missing"
grep -q 'no answer for task gsm8k_chat, id 0' "$folder/err" || fail "which answer is missing"
# Options that would change nothing.
void() {
    text=$1
    shift
    "$metier" eval "$@" >/dev/null 2>"$folder/err" && fail "eval $* was not refused"
    grep -qF -- "$text" "$folder/err" || { cat "$folder/err"; fail "eval $*: no '$text'"; }
}
void "--device means nothing without --model" gsm8k_chat --data "$samples" --answers "$folder/none" --out "$folder/x" --device cpu
void "--slots means nothing without --model" gsm8k_chat --data "$samples" --questions - --slots 4
void "--max-new means nothing with --answers" gsm8k_chat --data "$samples" --answers "$folder/none" --out "$folder/x" --max-new 3
void "--out means nothing with --questions" gsm8k_chat --data "$samples" --questions - --out "$folder/x"
void "--data means nothing with --list" --list --data "$samples"
void "--seed means nothing without --temperature" gsm8k_chat --data "$samples" --model "$folder" --seed 3
void "--max-new means nothing with these tasks: their choices are scored, not written" mmlu_chat_astronomy --data "$samples" \
    --model "$folder" --max-new 2
void "--temperature means nothing with these tasks" mmlu_chat_astronomy glue_cola --data "$samples" --model "$folder" --temperature 1
void "--without-sandbox means nothing with these tasks" gsm8k_chat --data "$samples" --model "$folder" --without-sandbox
void "--template-option means nothing without --template" gsm8k_chat --data "$samples" --model "$folder" --template-option a=b
void "--template-option means nothing with this --template: it has no options" gsm8k_chat --data "$samples" --model "$folder" \
    --template chatml --template-option a=b
void "--shots means nothing with --list" --list --shots 2
void "--limit means nothing with --keys" --keys --limit 2
void "unexpected argument 'gsm8k_chat'" gsm8k_chat --list
exit $failed
