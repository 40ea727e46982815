#!/bin/bash
# metier compare with benchmarks: what a cell's evaluation is, going on inside it, several models, bases, budgets.
# Usage: compare_tasks.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
share=$(cd "$here/../share" && pwd)
. "$here/support/expect.sh"

# same_tables FOLDER FOLDER: compare.json of both, but for times.
same_tables() {
    cmp -s <(grep -v '"times' "$place/$1/compare.json") <(grep -v '"times' "$place/$2/compare.json")
    result $? "$1/compare.json and $2/compare.json differ"
}

cp -r "$share/samples" "$place/data"
"$metier" synth --domain all --split test --count 60 --out "$place/data/synth/{domain}.jsonl" >/dev/null 2>&1 ||
    fail "metier synth"
cat >"$place/compare.yaml" <<END
model: $share/models/tiny-deepseek-v2
out: $place/whole
methods: [aux, {name: loss-free, objective.bias_rate: 0.1}]
seeds: [1]
domains: [math]
problems: {train: 200, test: 20}
tasks:
    - {task: synth_math, limit: 20, max_tokens: [1, 16]}
    - glue_cola
evaluation: {data: $place/data, limit: 8}
training:
    steps: 4
    lora: {rank: 4, alpha: 8}
    optimizer.lr: 3e-3
    data: {template: plain, max_length: 96}
    batch: {examples: 8, tokens: 512}
    checkpoint: {every: 2}
threads: 1
END
echo '/* stands for Chart.js v3.0 */' >"$place/chart.js"
js="--chart-js $place/chart.js"

# What cannot be is refused before anything is made.
expect 2 "there is no task 'gsm9k' in" compare "$place/compare.yaml" "tasks=[gsm9k]"
expect 2 "did you mean 'gsm8k'?" compare "$place/compare.yaml" "tasks=[gsm9k]"
expect 2 "evaluation.data is missing" compare "$place/compare.yaml" evaluation.data=
expect 2 "evaluation.data names the folder" compare "$place/compare.yaml" evaluation.data="$place/nowhere"
expect 2 "max_tokens means nothing: its choices are scored" compare "$place/compare.yaml" "tasks=[{task: mmlu_astronomy, max_tokens: 5}]"
expect 2 "two tasks are called gsm8k" compare "$place/compare.yaml" "tasks=[gsm8k, {task: gsm8k, shots: 0}]"
expect 2 "two models are called tiny-mixtral" compare "$place/compare.yaml" "models=[a/tiny-mixtral, b/tiny-mixtral]"
expect 2 "an entry of tasks has no key 'shot'; did you mean 'shots'?" compare "$place/compare.yaml" "tasks=[{task: gsm8k, shot: 0}]"
[ ! -e "$place/whole" ]
result $? "a comparison that was refused left a folder"

# A dry run plans every method, counts the questions, and leaves nothing behind.
TMPDIR=$place expect 0 "3 cells" compare "$place/compare.yaml" --dry-run "seeds=[1, 2, 3]" "methods=[aux]"
grep -q 'synth_math@16 *exact_match *1 *20 *0 *16$' "$place/text" && grep -q '^questions: 42 with every benchmark once, 168 in all' "$place/text" &&
    grep -q '^time: not known before a cell is done' "$place/text" && grep -Eq 'aux +4 +140992 +[0-9.]+ MB' "$place/text"
result $? "what a dry run says"
[ ! -e "$place/whole" ] && [ -z "$(find "$place" -maxdepth 1 -name 'metier-plan*')" ]
result $? "a dry run left a folder"

# shellcheck disable=SC2086
{
    expect 0 "$place/whole/report.html" compare "$place/compare.yaml" $js
    grep -q '^base ' "$place/text" && grep -q 'synth_math@1 %' "$place/text" && grep -q 'synth_math@16 %' "$place/text"
    result $? "no table of benchmarks"
    expect 0 "base" compare "$place/compare.yaml" $js --tables --csv "$place/csv" --latex "$place/tables.tex"
    grep -q '^base,[0-9.]*,,' "$place/csv/methods-and-benchmarks.csv" &&
        head -n 1 "$place/csv/methods-and-benchmarks.csv" | grep -q '^method,synth_math@1 %,synth_math@1 % ±,.*,Δ aux,Δ aux ±,p (Holm),rank,' &&
        grep -q '^synth_math,16,' "$place/csv/token-budgets.csv" && grep -q '^glue_cola,' "$place/csv/benchmarks-asked.csv"
    result $? "the tables of benchmarks as CSV"
    # Two budgets of one benchmark count as one in the mean: (a + b) / 2 and the third column.
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        $1 == "aux" { wanted = (($at["synth_math@1 %"] + $at["synth_math@16 %"]) / 2 + $at["glue_cola %"]) / 2
            off = wanted - $at["mean"]; if (off * off < 1e-6) right = 1 } END { exit !right }' "$place/csv/methods-and-benchmarks.csv"
    result $? "the mean over benchmarks: $(cat "$place/csv/methods-and-benchmarks.csv")"
    grep -q '^base & ${' "$place/tables.tex" && grep -q '^aux & ' "$place/tables.tex" && grep -q 'label{tab:token-budgets}' "$place/tables.tex"
    result $? "the tables of benchmarks in LaTeX"
    grep -q 'class="finding [a-z]*"><b>' "$place/whole/report.html" && grep -q '<h2>Verdict</h2>' "$place/whole/report.html"
    result $? "the page has no verdict"
    # Short answers are cut: the budgets tell them apart, and the base is not what was trained of it.
    for file in base aux-math-s1 loss-free-math-s1; do
        grep -o '"synth_math@16": {.*"samples": 20,' "$place/whole/cells/$file/cell.json" | cut -d, -f3 >"$place/$file.value"
        [ -s "$place/$file.value" ]
        result $? "$file: no value of synth_math@16"
        [ -s "$place/whole/cells/$file/eval/synth_math@1/results.json" ] &&
            [ "$(wc -l <"$place/whole/cells/$file/eval/synth_math@16/samples_synth_math.jsonl")" -eq 20 ] &&
            [ "$(wc -l <"$place/whole/cells/$file/eval/glue_cola/samples_glue_cola.jsonl")" -eq 2 ]
        result $? "$file: what metier eval writes is not there"
    done
    differ whole/cells/base/eval/synth_math@1/samples_synth_math.jsonl whole/cells/base/eval/synth_math@16/samples_synth_math.jsonl

    # What a cell scores is what metier eval says of its adapter.
    expect 0 "synth_math" eval synth_math --limit 20 --max-new 16 --data "$place/data" --model "$share/models/tiny-deepseek-v2" \
        --adapter "$place/whole/cells/aux-math-s1/run/adapter" --out "$place/by-hand" --threads 1 --quiet
    sort "$place/by-hand/samples_synth_math.jsonl" >"$place/hand"
    sort "$place/whole/cells/aux-math-s1/eval/synth_math@16/samples_synth_math.jsonl" >"$place/cell"
    same hand cell "metier eval and a cell"
    value=$(grep -o '"exact_match,none": [0-9.]*' "$place/by-hand/results.json" | cut -d' ' -f2)
    grep -q "\"synth_math@16\": {\"asking\": \"[0-9a-f]*\", \"metric\": \"exact_match\", \"value\": $value," "$place/whole/cells/aux-math-s1/cell.json"
    result $? "the cell's value is not $value, as metier eval has it"

    # Every result says in which form it was asked, and why: a cell as it was trained, its base in the same way.
    grep -q '"form": "plain, because the run was trained with it"' "$place/whole/cells/aux-math-s1/cell.json" &&
        grep -q '"form": "plain, because the cells are trained with it"' "$place/whole/cells/base/cell.json" &&
        grep -q '"form": "plain, because the run was trained with it"' "$place/whole/compare.json" &&
        grep -q 'plain, because the run was trained with it' "$place/whole/report.html"
    result $? "cells, compare.json or the page do not say which form and why"

    # Loss-free balancing is evaluated as it was trained: without its biases the answers are others.
    adapter=$place/whole/cells/loss-free-math-s1/run/adapter
    [ -s "$adapter/router_bias.safetensors" ]
    result $? "a loss-free cell leaves no biases"
    cp -r "$adapter" "$place/unbiased" && rm "$place/unbiased/router_bias.safetensors"
    for kind in biased unbiased; do
        [ $kind = unbiased ] && adapter=$place/unbiased
        expect 0 "glue_cola" eval glue_cola --data "$place/data" --model "$share/models/tiny-deepseek-v2" --template none \
            --adapter "$adapter" --out "$place/eval-$kind" --threads 1 --quiet
        sort "$place/eval-$kind/samples_glue_cola.jsonl" >"$place/$kind.jsonl"
    done
    sort "$place/whole/cells/loss-free-math-s1/eval/glue_cola/samples_glue_cola.jsonl" >"$place/cell.jsonl"
    same cell.jsonl biased.jsonl "loss-free"
    differ cell.jsonl unbiased.jsonl "loss-free without its biases"

    expect 0 "4 done" compare "$place/compare.yaml" --dry-run
    grep -q '^time: about' "$place/text"
    result $? "a dry run after a run says no time"

    # Killed again and again, with ever more files written, while it trains and while it evaluates, it ends with the same.
    for files in 1 6 12 18 24 32 40 50; do
        "$metier" compare "$place/compare.yaml" out="$place/killed" $js --quiet >/dev/null 2>&1 &
        until_files $files $!
        kill -9 $! 2>/dev/null
        wait $! 2>/dev/null
    done
    expect 0 "$place/killed/report.html" compare "$place/compare.yaml" out="$place/killed" $js --quiet
    same_tables whole killed
    # And in the middle of an evaluation: questions that are answered are not asked again.
    cp -r "$place/whole" "$place/cut"
    for cell in aux-math-s1 base; do
        sed -i 's/\("glue_cola": {"asking": "\)/\1otherwise/' "$place/cut/cells/$cell/cell.json"
        sed -i '$d' "$place/cut/cells/$cell/eval/glue_cola/samples_glue_cola.jsonl"
    done
    head -n 1 "$place/cut/cells/base/eval/glue_cola/samples_glue_cola.jsonl" >"$place/kept"
    touch -d '2001-01-01' "$place/cut/cells/aux-math-s1/run/log.jsonl"
    expect 0 "of 2 cells and 2 bases, 2 trained and measured now, 2 before" compare "$place/compare.yaml" out="$place/cut" $js --quiet
    same_tables whole cut
    head -n 1 "$place/cut/cells/base/eval/glue_cola/samples_glue_cola.jsonl" | cmp -s - "$place/kept"
    result $? "a question that was answered is asked again"
    [ -n "$(find "$place/cut/cells/aux-math-s1/run/log.jsonl" ! -newermt 2002-01-01)" ]
    result $? "a cell that was trained is trained again"

    # A benchmark more: only that is asked.
    expect 0 "five %" compare "$place/compare.yaml" out="$place/cut" $js --quiet \
        "tasks=[{task: synth_math, limit: 20, max_tokens: [1, 16]}, glue_cola, {task: synth, limit: 7, name: five}]"
    grep -q '"five": {"asking": "[0-9a-f]*", "metric": "mean", .*"samples": 7,' "$place/cut/cells/base/cell.json"
    result $? "a limit is not spread over the parts of a group"
    [ -n "$(find "$place/cut/cells/aux-math-s1/run/log.jsonl" ! -newermt 2002-01-01)" ]
    result $? "a cell is trained again for a benchmark more"

    # Several models: cells and tables of each; a file without a test file is divided.
    "$metier" synth --domain math --split train --count 100 --out "$place/sums.jsonl" >/dev/null 2>&1 || fail "metier synth"
    sed '/^model:/d' "$place/compare.yaml" >"$place/several.yaml"
    expect 0 "tiny-mixtral" compare "$place/several.yaml" out="$place/models" $js --quiet "methods=[aux]" "tasks=[glue_cola]" \
        "models=[{name: one, path: $share/models/tiny-deepseek-v2}, $share/models/tiny-mixtral]" \
        "domains=[{name: sums, train: $place/sums.jsonl}]"
    [ -f "$place/models/cells/one-aux-sums-s1/cell.json" ] && [ -f "$place/models/cells/tiny-mixtral-base/cell.json" ]
    result $? "cells of two models"
    [ "$(wc -l <"$place/models/data/test-sums.jsonl")" -eq 10 ] && [ "$(wc -l <"$place/models/data/train-sums.jsonl")" -eq 90 ] &&
        [ -z "$(sort "$place/models/data/test-sums.jsonl" "$place/models/data/train-sums.jsonl" | uniq -d)" ]
    result $? "a file is not divided into training and test"

    # A recipe makes what is trained on, without what a benchmark of the comparison asks.
    head -n 1 "$place/data/gsm8k/test.jsonl" >"$place/data/gsm8k/train.jsonl"
    for i in $(seq 40); do
        echo "{\"question\": \"$i and $i make what?\", \"answer\": \"#### $((i + i))\"}"
    done >>"$place/data/gsm8k/train.jsonl"
    expect 0 "gsm8k: 41 rows, 0 unusable, 1 that overlap with test questions removed, 0 read by a model or held out; 30 drawn" compare "$place/compare.yaml" \
        out="$place/made" $js "methods=[aux]" "tasks=[{task: gsm8k, max_tokens: 2, shots: 0}]" \
        "domains=[{name: made, recipe: gsm8k}]" problems.train=30 training.data.max_length=300
    [ "$(cat "$place/made/data/"{train,test}-made.jsonl | sort -u | wc -l)" -eq 30 ] &&
        [ "$(wc -l <"$place/made/data/test-made.jsonl")" -eq 3 ] && [ -f "$place/made/cells/aux-made-s1/cell.json" ]
    result $? "a recipe's rows"
    expect 2 "has one of train and recipe" compare "$place/compare.yaml" "domains=[{name: made, recipe: gsm8k, train: x}]"
    expect 2 "there is no recipe 'gsm9k'" compare "$place/compare.yaml" out="$place/none" "domains=[{name: made, recipe: gsm9k}]"

    # A domain's cells are evaluated with the benchmarks it names, the bases with all; means are over those that are.
    expect 0 "base" compare "$place/compare.yaml" out="$place/own" $js --quiet "methods=[aux]" \
        "tasks=[{task: synth_math, limit: 5, max_tokens: 4}, {task: synth_code, limit: 5, max_tokens: 4}]" \
        "domains=[{name: one, train: $place/sums.jsonl, tasks: [synth_math]}, {name: two, train: $place/sums.jsonl, tasks: synth_code}]" \
        --csv "$place/own-csv"
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "mean") mean = i } $1 == "aux" && $mean != "" { found = 1 }
        END { exit !found }' "$place/own-csv/methods-and-benchmarks.csv"
    result $? "no mean over benchmarks that different domains are asked: $(cat "$place/own-csv/methods-and-benchmarks.csv")"
    ls "$place/own/cells/base/eval" "$place/own/cells/aux-one-s1/eval" "$place/own/cells/aux-two-s1/eval" |
        grep -c '^synth_' >"$place/asked"
    [ "$(cat "$place/asked")" -eq 4 ] && [ -d "$place/own/cells/aux-two-s1/eval/synth_code" ] && ! grep -q '^aux .* – .*–' "$place/text"
    result $? "benchmarks of a domain"
    expect 0 "0 trained and measured now, 5 before" compare "$place/compare.yaml" out="$place/own" $js "methods=[aux]" \
        "tasks=[{task: synth_math, limit: 5, max_tokens: 4}, {task: synth_code, limit: 5, max_tokens: 4}]" \
        "domains=[{name: one, train: $place/sums.jsonl, tasks: [synth_math]}, {name: two, train: $place/sums.jsonl, tasks: synth_code}]"
    expect 2 "no entries of tasks" compare "$place/compare.yaml" "domains=[{name: one, train: x, tasks: [nothing]}]"
    expect 2 "no domain is evaluated with the task glue_cola" compare "$place/compare.yaml" \
        "domains=[{name: one, train: x, tasks: [synth_math]}]"

    # A cell that fails is tried once more, and named.
    expect 1 "failed: broken-math-s1: " compare "$place/compare.yaml" out="$place/broken" $js \
        "methods=[aux, {name: broken, method: aux, experts: $place/nowhere}]" "tasks=[glue_cola]"
    [ "$(grep -c '^broken-math-s1: FAILED' "$place/text")" -eq 2 ] && [ -f "$place/broken/report.html" ]
    result $? "a cell that fails is not tried once more"
}

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
