#!/bin/sh
# metier eval with a model, from outside: every kind of task, company, adapters, programs, stops, kills; and what
# SIGINT does to metier generate and metier chat. Usage: model.sh METIER GOLDEN
set -u
metier=$1
golden=$2
samples=$(cd "$(dirname "$0")/../../../share/samples" && pwd)
place=$(mktemp -d) || exit 1
process=
trap '[ -n "$process" ] && kill -KILL $process 2>/dev/null; rm -rf "$place"' EXIT
failed=0

fail() {
    printf 'model.sh: %s\n' "$*"
    failed=1
}

model=$place/model
"$(dirname "$0")/../../support/deepseek-model" "$metier" "$place" 192 440 ', "bos_token_id": 420, "eos_token_id": 421' ||
    fail "metier init"
cp "$golden/tokenizers/deepseek.json" "$model/tokenizer.json" || fail "no tokenizer"

# evaluate OUT ARGUMENTS...: a run that should succeed; what it prints is in $place/text.
evaluate() {
    out=$place/$1
    shift
    "$metier" eval "$@" --data "$samples" --model "$model" --out "$out" --threads 1 --quiet >"$place/text" 2>&1 ||
        { cat "$place/text"; fail "eval $*"; }
}

# refuse TEXT ARGUMENTS...: a run that should say so.
refuse() {
    text=$1
    shift
    if "$metier" eval "$@" >"$place/text" 2>&1; then fail "eval $* was not refused"; fi
    grep -qF -- "$text" "$place/text" || { cat "$place/text"; fail "eval $*: no '$text'"; }
}

# same A B TASK: the same samples, whatever order they were finished in.
same() {
    sort "$place/$1/samples_$3.jsonl" >"$place/a"
    sort "$place/$2/samples_$3.jsonl" >"$place/b"
    [ -s "$place/a" ] && cmp -s "$place/a" "$place/b" || fail "$3: $1 and $2 differ"
}

# Every kind: written answers, numbers, lists, choices, programs; alone and in company the same bits.
kinds=gsm8k_chat,math500_chat,mmlu_chat_astronomy,mmlu_pro_chat_math,gpqa_chat,glue_cola,glue_stsb,bbh_chat_words_word_sorting,livebench_olympiad
evaluate one --tasks $kinds --slots 1 --no-routing
[ -e "$place/one/routing_gsm8k_chat.json" ] && fail "--no-routing writes routing"
evaluate eight --tasks $kinds --slots 8
grep -q 'MaxVio' "$place/text" || fail "no MaxVio in the table"
for task in $(echo $kinds | tr , ' '); do
    same one eight "$task"
    grep -q '"maxvio"' "$place/eight/routing_$task.json" || fail "no routing of $task"
    grep -q "\"$task\"" "$place/eight/results.json" || fail "no result of $task"
done
grep -q '"log_likelihoods": \[-[0-9.e+-]*, -[0-9.e+-]*\], "greedy": \[' "$place/one/samples_glue_cola.jsonl" ||
    fail "no log-likelihoods"
grep -q '"max_vio,none"' "$place/eight/results.json" || fail "no MaxVio in the summary"

# A second run has nothing to do, and says the same.
cp "$place/eight/results.json" "$place/before"
evaluate eight --tasks glue_cola --slots 8
[ "$(wc -l <"$place/eight/samples_glue_cola.jsonl")" -eq 2 ] || fail "samples were asked again"
grep -q '^of 2 samples, 0 judged now and 2 before$' "$place/text" || fail "what was there before is not said"

# Where everything is, is said; and what is new where some was there before.
evaluate places glue_cola --limit 1
grep -q "^written: $place/places/results.json\$" "$place/text" || fail "where results went is not said"
grep -q "^ *$place/places/routing_TASK.json\$" "$place/text" || fail "where routing went is not said"
grep -q ' before$' "$place/text" && fail "a first run speaks of one before"
evaluate places glue_cola
grep -q '^of 2 samples, 1 judged now and 1 before$' "$place/text" || fail "this part and the whole are not counted"

# A group's mean has its line below the tasks.
evaluate group glue --limit 1 --no-routing
grep -Eq '^glue +[0-9]+ +mean +[01]\.[0-9]+ +[01]\.[0-9]+ to [01]\.[0-9]+' "$place/text" || fail "no mean of the group"

# Another way of asking is not mixed in.
refuse 'Use another --out, or --again' gsm8k_chat --data "$samples" --model "$model" --template chatml --out "$place/one"
"$metier" forward "$model" --ids 1,2 --grads --train lora --targets attention,routed_experts --rank 2 --alpha 4 \
    --lora-b-std 0.3 --save-adapter "$place/adapter" >/dev/null 2>&1 || fail "no adapter"
refuse 'Use another --out, or --again' gsm8k_chat --data "$samples" --model "$model" --adapter "$place/adapter" --out "$place/one"
# Files that have become others, their length and time the same, are named; put back, or only copied, they are the same.
# swap FILE FROM TO: other bytes of the same number in place.
swap() {
    touch -r "$1" "$place/time"
    sed "s/$2/$3/" "$1" >"$place/swapped" && cat "$place/swapped" >"$1"
    touch -r "$place/time" "$1"
}
swap "$model/tokenizer.json" '"padding":null' '"padding":nul '
refuse 'model/tokenizer.json: is not what it was when the answers in --out were made (its content has changed)' \
    glue_cola --data "$samples" --model "$model" --out "$place/one" --no-routing
swap "$model/tokenizer.json" '"padding":nul ' '"padding":null'
touch -r "$model/model.safetensors" "$place/time"
cp "$model/model.safetensors" "$place/weights"
printf 'xxxx' | dd of="$model/model.safetensors" bs=1 seek=$(($(wc -c <"$model/model.safetensors") - 9)) conv=notrunc 2>/dev/null
touch -r "$place/time" "$model/model.safetensors"
refuse 'model.safetensors: is not what it was' glue_cola --data "$samples" --model "$model" --out "$place/one"
cp "$place/weights" "$model/model.safetensors"
evaluate one glue_cola --slots 1 --no-routing
grep -q '^of 2 samples, 0 judged now and 2 before$' "$place/text" || fail "a copy of the weights is taken for others"
# A folder of a version that noted the weights' time, and no content: it goes on, and says what is not known.
newest=$(stat -c %Y "$model/model.safetensors")
sed "s/\("'"bytes": [0-9]*'"\)}/\1, \"newest\": $newest}/" "$place/one/source.json" >"$place/dated"
mv "$place/dated" "$place/one/source.json"
rm "$place/one/inputs.json"
evaluate one glue_cola --slots 1 --no-routing
grep -q 'inputs.json: is missing' "$place/text" || fail "what is not known is not said"
grep -q newest "$place/one/source.json" && fail "the old note is kept"
[ -s "$place/one/inputs.json" ] || fail "what files hold is not noted"

# A folder that is removed and made anew under a run is left alone.
over=yes # the run may be over before its folder is taken: then again
while [ $over = yes ]; do
    rm -rf "$place/lost" "$place/taken"
    "$metier" eval --tasks $kinds --data "$samples" --model "$model" --out "$place/lost" --threads 1 --quiet >"$place/text" 2>&1 &
    process=$!
    while [ ! -s "$place/lost/samples_gsm8k_chat.jsonl" ] && kill -0 $process 2>/dev/null; do sleep 0.02; done
    mv "$place/lost" "$place/taken" && mkdir "$place/lost"
    [ -e "$place/taken/results.json" ] && wait $process || over=no
done
if wait $process; then fail "a run went on in a folder that was not its own"; fi
process=
grep -q 'lost: was moved, removed or replaced' "$place/text" || { cat "$place/text"; fail "the lost folder is not told of"; }
[ -z "$(ls -A "$place/lost")" ] || fail "somebody else's folder was written to"

evaluate adapted glue_cola --adapter "$place/adapter"
sort "$place/adapted/samples_glue_cola.jsonl" >"$place/a"
sort "$place/one/samples_glue_cola.jsonl" >"$place/b"
cmp -s "$place/a" "$place/b" && fail "an adapter changes nothing"
evaluate asked gsm8k_chat glue_cola --template chatml
# The length of an answer is the folder's.
evaluate short gsm8k_chat --max-new 3
grep -q '"max_new": 3' "$place/short/source.json" || fail "--max-new is not noted"
refuse 'Use another --out, or --again' gsm8k_chat --data "$samples" --model "$model" --out "$place/short"

# A run's adapter is asked through the template it was trained with, unless somebody says otherwise.
mkdir "$place/run"
cp -r "$place/adapter" "$place/run/adapter"
printf 'data:\n    template: chatml\n' >"$place/run/config.yaml"
"$metier" eval gsm8k_chat --data "$samples" --model "$model" --adapter "$place/run/adapter" --out "$place/taken-template" \
    --threads 1 >"$place/text" 2>&1 || fail "the template of a run"
grep -q "^form: chatml, because the run was trained with it (.*/run/config.yaml)" "$place/text" ||
    { cat "$place/text"; fail "the template is not told of"; }
evaluate told gsm8k_chat --adapter "$place/run/adapter" --template chatml
same taken-template told gsm8k_chat
cmp -s "$place/taken-template/source.json" "$place/told/source.json" || fail "the template of a run is not noted"
evaluate plain-run gsm8k_chat --adapter "$place/run/adapter" --template none
evaluate plain-adapter gsm8k_chat --adapter "$place/adapter"
same plain-run plain-adapter gsm8k_chat
printf 'data: [\n' >"$place/run/config.yaml"
refuse 'which template the run was trained with' gsm8k_chat --data "$samples" --model "$model" --adapter "$place/run/adapter"
refuse "one of --model DIR" gsm8k_chat --data "$samples"
refuse "--slots is 0" gsm8k_chat --data "$samples" --model "$model" --slots 0
refuse "none of these has it" gsm8k_chat --data "$samples" --model "$model" --samples 4
refuse "--pass-k is 5" humaneval_chat --data "$samples" --model "$model" --samples 4 --pass-k 5
refuse "a task is missing" --tasks , --data "$samples" --model "$model"
(cd "$place" && "$metier" eval glue_cola --data "$samples" --model "$model" --quiet >"$place/text" 2>&1) ||
    fail "no --out"
[ -s "$place/eval-model/results.json" ] || fail "results do not go to eval-model"

# Programs, where the sandbox works: several answers for pass@k, and those of a file.
echo pass >"$place/nothing.py"
if "$metier" sandbox "$place/nothing.py" >/dev/null 2>&1; then
    evaluate code humaneval_chat mbpp_chat --samples 3 --pass-k 2 --seed 7
    grep -q 'pass@1' "$place/text" && grep -q 'pass@2' "$place/text" || fail "no pass@k"
    grep -q '"tries": 3' "$place/code/samples_humaneval_chat.jsonl" || fail "not three answers"
    printf '%s\n' '{"task": "humaneval_chat", "id": "Sample/0", "answer": "```python\ndef add(a, b):\n    return a + b\n```"}' \
        >"$place/right"
    printf '%s\n' '{"task": "humaneval_chat", "id": "Sample/0", "answer": "```python\ndef add(a, b):\n    return a - b\n```"}' \
        >"$place/wrong"
    printf '%s\n' '{"task": "humaneval_chat", "id": "Sample/0", "answer": ""}' >"$place/none"
    for kind in right wrong none; do
        expected=0.0000
        [ $kind = right ] && expected=1.0000
        "$metier" eval humaneval_chat --data "$samples" --answers "$place/$kind" --out "$place/judged-$kind" --quiet \
            >"$place/text" 2>&1 || fail "judging $kind"
        grep -q "pass@1 *$expected" "$place/text" || { cat "$place/text"; fail "a $kind program"; }
    done
    # Tests of one's own, and what a program writes to a terminal.
    printf 'def twice(x):\n    return x + x\n' >"$place/twice.py"
    printf 'class Any:\n    def __eq__(self, other): return True\ndef twice(x): return Any()\n' >"$place/any.py"
    printf 'assert twice(2) == 4 and twice("a") == "aa"\n' >"$place/tests.py"
    "$metier" sandbox "$place/twice.py" --tests "$place/tests.py" >"$place/text" 2>&1 || { cat "$place/text"; fail "right by tests"; }
    ! "$metier" sandbox "$place/any.py" --tests "$place/tests.py" >"$place/text" 2>&1 || fail "an object equal to everything passes"
    grep -q 'assert twice(2) == 4' "$place/text" || fail "no line of the test that failed"
    printf 'import sys\nsys.stderr.write("\\033]0;title\\007\\u202ex\\n")\nraise SystemExit(1)\n' >"$place/escapes.py"
    ! "$metier" sandbox "$place/escapes.py" >"$place/text" 2>&1 || fail "a program that fails passes"
    grep -q '?\]0;title????x' "$place/text" || { cat -v "$place/text"; fail "escape sequences reach the terminal"; }
else
    printf 'model.sh: no sandbox here: programs are not tried\n'
    refuse 'runs programs that a model wrote' humaneval_chat --data "$samples" --model "$model" --out "$place/code"
fi

# Many samples, so that there is time to stop and to kill.
mkdir -p "$place/data/gsm8k" "$place/data/glue/RTE"
i=0
printf 'index\tsentence1\tsentence2\tlabel\n' >"$place/data/glue/RTE/dev.tsv"
while [ $i -lt 400 ]; do
    printf '{"question": "What is %d + %d?", "answer": "#### %d"}\n' $i $i $((2 * i)) >>"$place/data/gsm8k/test.jsonl"
    printf '%d\tThere are %d.\tThere are some.\tentailment\n' $i $i >>"$place/data/glue/RTE/dev.tsv"
    i=$((i + 1))
done

for i in 1 2 3 4 5 6 7 8 9 10; do cat "$place/data/gsm8k/test.jsonl"; done >"$place/many"
mv "$place/many" "$place/data/gsm8k/test.jsonl"
cat >"$place/sums.yaml" <<'END'
title: sums
domain: math
data: gsm8k/test.jsonl
prompt: "{question}"
answer: "{answer|after:####|trim}"
extract: [last_number]
compare: math
metrics: [exact_match]
max_tokens: 40
END

# begin ARGUMENTS...: a run in the background. Such a job ignores SIGINT unless it is told otherwise.
begin() {
    env --default-signal=INT "$metier" "$@" >"$place/text" 2>&1 </dev/null &
    process=$!
}

lines() { if [ -e "$1" ]; then wc -l <"$1"; else echo 0; fi; }

wait_for() {
    while [ "$(lines "$1")" -lt "$2" ] && kill -0 $process 2>/dev/null; do sleep 0.01; done
}

file=$place/stopped/samples_sums.jsonl
begin eval "$place/sums.yaml" --data "$place/data" --model "$model" --out "$place/stopped" --threads 1 --slots 4 --quiet
wait_for "$file" 1
"$metier" eval "$place/sums.yaml" --data "$place/data" --model "$model" --out "$place/stopped" --quiet >"$place/second" 2>&1 &&
    fail "two runs in one folder"
grep -q 'another process is evaluating there' "$place/second" || { cat "$place/second"; fail "a second run is not told why"; }
kill -INT $process
wait $process
got=$?
process=
[ $got -eq 130 ] || { cat "$place/text"; fail "SIGINT: exit status $got"; }
grep -q 'the same command goes on' "$place/text" || { cat "$place/text"; fail "SIGINT: nothing is said"; }
[ "$(lines "$file")" -ge 1 ] && [ "$(lines "$file")" -lt 4000 ] || fail "SIGINT: $(lines "$file") samples"
[ -e "$place/stopped/results.json" ] && fail "SIGINT: a summary of half a run"

# Killed again and again; in the end every sample was asked once, and all is as in a run that was left alone.
for task in sums glue_rte; do
    name=$task
    [ $task = sums ] && name=$place/sums.yaml
    file=$place/killed/samples_$task.jsonl
    lives=0
    while [ ! -e "$place/killed/results.json" ] && [ $lives -lt 60 ]; do
        had=$(lines "$file")
        begin eval "$name" --data "$place/data" --model "$model" --out "$place/killed" --threads 1 --slots 4 \
            --limit 40 --no-routing --quiet
        [ $lives -lt 3 ] && wait_for "$file" $((had + 5)) && kill -KILL $process 2>/dev/null
        wait $process
        process=
        lives=$((lives + 1))
    done
    rm "$place/killed/results.json" || { cat "$place/text"; fail "no end of $task"; }
    [ "$(lines "$file")" -eq 40 ] || fail "$task: $(lines "$file") samples after $lives lives"
    "$metier" eval "$name" --data "$place/data" --model "$model" --out "$place/alone" --threads 1 --limit 40 --no-routing \
        --quiet >/dev/null 2>&1 || fail "$task left alone"
    same killed alone $task
done

# Which experts were used is known of all samples, of earlier runs, too.
part=$place/parts/routing_sums.json
routing() {
    "$metier" eval "$place/sums.yaml" --data "$place/data" --model "$model" --out "$place/$1" --threads 1 --slots 2 \
        --limit "$2" --quiet >"$place/text" 2>&1 || { cat "$place/text"; fail "routing of $2 samples"; }
}
routing whole 40
routing parts 10
grep -q '"samples": 10, "of": 10' "$part" || fail "routing: not ten samples"
routing parts 40
grep -q '"samples": 40, "of": 40' "$part" || fail "routing: not forty samples: $(head -c 100 "$part")"
loads() { tr -d '\n' <"$1" | grep -o '"load": \[[^]]*\]'; }
loads "$place/whole/routing_sums.json" >"$place/a"
loads "$part" >"$place/b"
[ -s "$place/a" ] && cmp -s "$place/a" "$place/b" || fail "routing: the loads of two runs are not those of one"
cp "$part" "$place/before"
routing parts 40
cmp -s "$part" "$place/before" || fail "routing: a run that has nothing to do changes it"
printf x >>"$place/parts/routing_sums.state"
routing parts 50
grep -q '"samples": 10, "of": 50' "$part" || fail "routing: a damaged state is used"

# metier generate: the answers that were finished are in the file.
i=0
while [ $i -lt 2000 ]; do
    printf '{"prompt": "number %d"}\n' $i >>"$place/prompts.jsonl"
    i=$((i + 1))
done
begin generate "$model" --in "$place/prompts.jsonl" --out "$place/answers.jsonl" --max-new 100 --threads 1
while ! ls "$place"/answers.jsonl.tmp.* >/dev/null 2>&1 && kill -0 $process 2>/dev/null; do sleep 0.01; done
sleep 0.2
kill -INT $process
wait $process
got=$?
process=
[ $got -eq 130 ] || { cat "$place/text"; fail "generate, SIGINT: exit status $got"; }
grep -q "stopped: $(lines "$place/answers.jsonl") of 2000 answers are written, in $place/answers.jsonl" "$place/text" ||
    { cat "$place/text"; fail "generate, SIGINT: what is missing is not said"; }
[ -e "$place/answers.jsonl" ] && [ "$(lines "$place/answers.jsonl")" -lt 2000 ] || fail "generate, SIGINT: no file"
if [ -s "$place/answers.jsonl" ] && ! tail -n 1 "$place/answers.jsonl" | grep -q '}$'; then fail "a torn line"; fi

# metier chat: an answer is cut short and the conversation goes on; SIGTERM ends it.
mkfifo "$place/input"
env --default-signal=INT "$metier" chat "$model" --template chatml --max-new 15000 --context 20000 --threads 1 \
    <"$place/input" >"$place/talk" 2>"$place/text" &
process=$!
exec 3>"$place/input"
echo hello >&3
while [ ! -s "$place/talk" ] && kill -0 $process 2>/dev/null; do sleep 0.01; done
kill -INT $process
echo again >&3
echo /quit >&3
exec 3>&-
wait $process
got=$?
process=
[ $got -eq 0 ] || { cat "$place/text"; fail "chat, SIGINT: exit status $got"; }
[ "$(wc -l <"$place/talk")" -ge 2 ] || fail "chat did not go on after SIGINT"
exit $failed
