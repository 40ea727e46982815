#!/bin/bash
# metier eval and metier analyze on many ranks, from outside: what one rank writes, byte for byte; kills, stops and
# failures; going on with another number of ranks. Usage: eval.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
samples=$here/../share/samples
. "$here/comm/launch.sh"
place=$(mktemp -d) || exit 1
job=
trap '[ -n "$job" ] && kill $job 2>/dev/null; rm -rf "$place"' EXIT

"$here/support/train-bench" "$metier" "$place" || exit 1
model=$place/model

# run COUNT ARGUMENTS...: on so many ranks, without a launcher for one.
run() {
    local count=$1
    shift
    if [ "$count" -eq 1 ]; then
        "$metier" "$@"
    else
        ranks "$count" "$metier" "$@"
    fi >"$place/text" 2>&1
}

# same A B: two folders of results are the same but for the time it took.
same() {
    local name
    # What a killed rank was writing may lie there still, under a temporary name (docs/training.md).
    for name in $(cd "$place" && ls "$1" "$2" | grep -v -e : -e '\.tmp\.' | sort -u); do
        if ! cmp -s <(grep -av '"total_evaluation_time_seconds"' "$place/$1/$name") \
            <(grep -av '"total_evaluation_time_seconds"' "$place/$2/$name"); then
            result 1 "$name: $1 and $2 differ"
        fi
    done
}

# Every kind of task; few samples and many ranks: some have nothing to do.
kinds=gsm8k,math500,mmlu_astronomy,gpqa,glue_cola,glue_stsb,livebench_olympiad
mkdir -p "$place/data/gsm8k" "$place/data/glue/RTE"
awk -v sums="$place/data/gsm8k/test.jsonl" -v pairs="$place/data/glue/RTE/dev.tsv" 'BEGIN {
    print "index\tsentence1\tsentence2\tlabel" >pairs
    for (i = 0; i < 900; i++) {
        more = ""; for (j = 0; j < i % 9; j++) more = more " and then some"
        printf "{\"question\": \"What is %d + %d%s?\", \"answer\": \"#### %d\"}\n", i, i, more, 2 * i >sums
        printf "%d\tThere are %d%s.\tThere are some.\tentailment\n", i, i, more >pairs } }'
cat >"$place/sums.yaml" <<'END'
title: sums
domain: math
data: gsm8k/test.jsonl
prompt: "{question}"
answer: "{answer|after:####|trim}"
extract: [last_number]
compare: math
metrics: [exact_match]
max_tokens: 16
END
long="$place/sums.yaml glue_rte --data $place/data --model $model --quiet"
for count in 1 2 4; do
    run $count eval --tasks $kinds --data "$samples" --model "$model" --out "$place/kinds-$count" --quiet --slots $((9 - count))
    result $? "eval on $count ranks: $(tail -n 3 "$place/text")"
    # shellcheck disable=SC2086
    run $count eval $long --limit 60 --out "$place/many-$count"
    result $? "eval of many samples on $count ranks: $(tail -n 3 "$place/text")"
done
for count in 2 4; do
    same kinds-1 kinds-$count
    same many-1 many-$count
done
[ "$(wc -l <"$place/many-4/samples_sums.jsonl")" -eq 60 ] && [ -s "$place/many-4/routing_sums.json" ]
result $? "not 60 samples"
! ls "$place"/*/part_* >/dev/null 2>&1
result $? "parts were left behind"

# With nothing left to ask, any number of ranks says the same.
cp -r "$place/many-4" "$place/again"
# shellcheck disable=SC2086
run 3 eval $long --limit 60 --out "$place/again"
result $? "eval again on 3 ranks: $(tail -n 3 "$place/text")"
cmp -s "$place/again/samples_sums.jsonl" "$place/many-1/samples_sums.jsonl"
result $? "asked again on other ranks, other samples"

# A run in two parts, on other ranks each, has the sums of routing of the whole.
for part in "2 20" "3 60"; do
    # shellcheck disable=SC2086
    run ${part% *} eval $long --limit ${part#* } --out "$place/grown"
    result $? "eval of ${part#* } samples: $(tail -n 3 "$place/text")"
done
python3 - "$place/many-1/routing_sums.json" "$place/grown/routing_sums.json" <<'END'
import json, sys
whole, grown = (json.load(open(path)) for path in sys.argv[1:])
assert grown["samples"] == grown["of"] == 60, (grown["samples"], grown["of"])
for a, b in zip(whole["figures"]["layers"], grown["figures"]["layers"]):
    for name in "tokens", "load", "first", "maxvio_batch", "batches", "rv_token", "rv_expert", "mean_score":
        if name in a: assert a[name] == b[name], name
END
result $? "routing of a run in two parts"

# The progress of the whole is rank 0's to show.
run 2 eval "$place/sums.yaml" --limit 40 --data "$place/data" --model "$model" --out "$place/shown"
[ "$(grep -c '^sums: 40/40' "$place/text")" -eq 1 ]
result $? "progress: $(head -n 3 "$place/text")"

# What is wrong everywhere is told once; what one rank finds out, by that rank, and all end.
run 3 eval gsm8k --data "$place/data" --model "$place/nothing" --out "$place/wrong"
[ "$(grep -c '^metier eval: ' "$place/text")" -eq 1 ]
result $? "a model that is not there: $(head -n 3 "$place/text")"
cp -r "$model" "$place/bent"
truncate -s -100 "$place/bent/model.safetensors"
for verb in "eval gsm8k --limit 40 --data $place/data --out $place/mixed" \
    "analyze --data $place/data.jsonl --out $place/mixed"; do
    # shellcheck disable=SC2086
    in_time "${start[@]}" -n 2 "$metier" $verb --model "$model" : \
        -n 1 "$metier" $verb --model "$place/bent" >"$place/text" 2>&1
    got=$?
    [ $got -ne 0 ] && [ $got -ne 124 ] && grep -m 1 '^metier' "$place/text" | grep -q 'rank 2: .*bent'
    result $? "$verb with a bent model on one rank: exit status $got, $(head -n 3 "$place/text")"
done

# A rank whose model is not a number in the middle of a task: the others stop, what was finished is kept.
"$here/support/poisoned-model" "$metier" "$place/model" "$place/poisoned" || exit 1
mkdir -p "$place/poison/glue/RTE"
awk 'NR == 500 { $0 = "499\tZ Z Z Z.\tZ.\tentailment" } { print }' "$place/data/glue/RTE/dev.tsv" >"$place/poison/glue/RTE/dev.tsv"
run 3 eval glue_rte --data "$place/poison" --model "$place/poisoned" --out "$place/nan" --quiet
got=$?
[ $got -ne 0 ] && [ $got -ne 124 ]
result $? "no number on one rank: exit status $got"
grep -m 1 '^metier' "$place/text" | grep -q 'metier eval: rank [012]: .*not'
result $? "nobody said who met what is not a number: $(head -n 3 "$place/text")"
[ ! -e "$place/nan/results.json" ]
result $? "a summary of a run that failed"

# rank_of FOLDER RANK: the process id of a rank that writes there.
rank_of() {
    pgrep -f "metier eval .*--out $1( |\$)" | while read -r pid; do
        grep -qz "$rank_variable=$2\$" "/proc/$pid/environ" 2>/dev/null && echo "$pid"
    done | head -n 1
}

# written FOLDER: samples that are there. Each counts once: a run that goes on brings the parts into the task's file
# before it removes them, and whoever looks in between finds their lines in both.
written() {
    awk 'BEGIN {
        for (i = 1; i < ARGC; i++) {
            task = ARGV[i]
            sub(/.*\/(samples|part_[0-9]+)_/, "", task)
            while ((getline line <ARGV[i]) > 0) {
                split(line, words, " ")
                if (words[1] == "{\"doc_id\":" && line ~ /}$/ && !seen[task " " words[2]]++) count++
            }
        }
        print count + 0
    }' "$1"/samples_* "$1"/part_*
}

# begin COUNT FOLDER MORE RANK: a long task in the background; waits until ranks have written so many samples more.
# `victim` is the process id of a rank, looked for before: what is written goes on growing fast.
found_and_written() {
    [ -n "$victim" ] || victim=$(rank_of "$1" "$2")
    [ -n "$victim" ] && [ "$(written "$1")" -ge "$3" ]
}
begin() {
    local wanted=$(($(written "$2") + $3))
    # shellcheck disable=SC2086
    ranks "$1" "$metier" eval $long --slots 2 --no-routing --out "$2" >"$place/text" 2>&1 &
    job=$!
    victim=
    until_true $job found_and_written "$2" "$4" $wanted
}

# A rank is killed, and so is one of the next life's; another number of ranks goes on, and all is as if nothing was.
# shellcheck disable=SC2086
run 1 eval $long --no-routing --out "$place/calm"
result $? "a calm run: $(tail -n 3 "$place/text")"
for life in "4 1" "2 0"; do
    # shellcheck disable=SC2086
    set -- $life
    begin "$1" "$place/killed" 30 "$2"
    had=$(written "$place/killed")
    kill -KILL "$victim"
    result $? "no rank $2 to kill"
    wait $job
    got=$?
    job=
    [ $got -ne 0 ] && [ $got -ne 124 ]
    result $? "rank $2 of $1 was killed: exit status $got"
    [ ! -e "$place/killed/results.json" ]
    result $? "killed too late"
    [ "$(written "$place/killed")" -ge "$had" ]
    result $? "samples were lost: $had, then $(written "$place/killed")"
done

# One rank is asked to end: all do, say how far they got, and leave one file; one process goes on.
begin 3 "$place/killed" 30 2
kill -TERM "$victim"
result $? "no rank 2 to ask"
wait $job
got=$?
job=
[ $got -ne 0 ] && [ $got -ne 124 ] && [ "$(grep -c 'the same command goes on' "$place/text")" -eq 1 ]
result $? "asked to end: exit status $got, $(head -n 3 "$place/text")"
! ls "$place"/killed/part_* >/dev/null 2>&1
result $? "parts were left behind by a stop"

# Ctrl-C reaches the launcher, which asks its ranks. (A job in the background ignores it unless it is told otherwise.)
wanted=$(($(written "$place/killed") + 30))
# shellcheck disable=SC2086
env --default-signal=INT mpirun --oversubscribe --bind-to none -n 2 "$metier" eval $long --slots 2 --no-routing \
    --out "$place/killed" >"$place/text" 2>&1 &
job=$!
enough() { [ "$(written "$place/killed")" -ge $wanted ]; }
until_true $job enough
kill -INT $job
wait $job
got=$?
job=
[ -e "$place/killed/results.json" ] || # it was faster than we
    { [ $got -ne 0 ] && [ "$(written "$place/killed")" -ge $wanted ]; }
result $? "Ctrl-C: exit status $got, $(head -n 3 "$place/text")"
# shellcheck disable=SC2086
run 1 eval $long --no-routing --out "$place/killed"
result $? "going on alone: $(tail -n 3 "$place/text")"
same calm killed

# What the experts became does not depend on ranks either.
"$metier" train "$place/run.yaml" --quiet steps=4 >/dev/null 2>&1 || exit 1
for i in $(seq 400); do
    printf 'Some words of another kind, number %d, and what they say.\nA second line.\n\n' $i
done >"$place/words.txt"
for count in 1 2 4; do
    run $count analyze --model "$model" --adapter "$place/run/adapter" --data "$place/data.jsonl=sums" \
        --data "$place/words.txt" --sample 100 --queries 40 --tokens 5000 --length 64 --cache 2,3 --out "$place/analysis-$count"
    result $? "analyze on $count ranks: $(tail -n 3 "$place/text")"
    run $count analyze --model "$model" --data "$place/data.jsonl" --data "$place/words.txt" --sample 100 --tokens 5000 \
        --select-experts best --score easy-ep --keep 3 --json --out "$place/experts-$count.json"
    grep '"easy-ep": ' "$place/text" >"$place/scores-$count"
    [ -s "$place/scores-$count" ]
    result $? "scores on $count ranks: $(tail -n 3 "$place/text")"
done
for count in 2 4; do
    cmp -s "$place/analysis-1/analysis.json" "$place/analysis-$count/analysis.json" &&
        cmp -s "$place/scores-1" "$place/scores-$count" && cmp -s "$place/experts-1.json" "$place/experts-$count.json"
    result $? "analyze: 1 and $count ranks differ"
done
run 3 analyze --model "$model"
[ "$(grep -c '^metier analyze: --data FILE is missing' "$place/text")" -eq 1 ]
result $? "analyze without data: $(head -n 3 "$place/text")"
exit $failed
