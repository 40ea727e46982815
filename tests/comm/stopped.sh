#!/bin/bash
# A rank that is stopped, not dead: the others notice, name it and end, and so does mpirun. A job that is stopped as a
# whole goes on. Usage: stopped.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/comm/launch.sh"
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
"$here/support/train-bench" "$metier" "$place" || exit 1
seconds=$silence

# begin WORDS...: three ranks of the program in the background, as $job; what they print is in $place/text.
begin() {
    words=$*
    METIER_RANK_TIMEOUT=$seconds ranks 3 "$metier" "$@" >"$place/text" 2>&1 &
    job=$!
}

# Process ids of some ranks of the job: a pattern.
processes() {
    local pid
    for pid in $(pgrep -f "$(basename "$metier") $words"); do
        grep -qz "^$rank_variable=$1\$" "/proc/$pid/environ" 2>/dev/null && echo "$pid"
    done
}

# Until a file is there, or $job has ended.
await() { until_true $job [ -e "$1" ]; }

# ends RANK: one rank is stopped, and the job ends with its name.
ends() {
    local rank=$1 stopped got
    stopped=$(processes "$rank")
    kill -STOP $stopped
    result $? "$words: rank $rank could not be stopped: $(head -n 3 "$place/text")"
    wait $job
    got=$?
    [ $got -ne 0 ] && [ $got -ne 124 ] && [ $got -ne 137 ]
    result $? "$words: rank $rank was stopped, exit status $got"
    grep -q "^metier: rank [0-9] of 3: rank $rank has not been heard of for $seconds seconds" "$place/text"
    result $? "$words: rank $rank was stopped, got $(head -n 3 "$place/text")"
    [ -z "$(processes '[0-9]*')" ]
    result $? "$words: rank $rank was stopped, and processes are left"
}

for rank in 0 2; do
    begin train "$place/run.yaml" out="$place/train$rank" steps=100000 checkpoint.every=20 --quiet
    await "$place/train$rank/checkpoints/step-00000020"
    ends $rank
    ls "$place/train$rank/checkpoints" | grep -q '^step-[0-9]*$'
    result $? "no checkpoint after rank $rank was stopped"
done

mkdir -p "$place/rows/glue/RTE"
awk 'BEGIN { print "index\tsentence1\tsentence2\tlabel"; for (i = 0; i < 40000; i++)
    printf "%d\tThere are %d.\tThere are some.\tentailment\n", i, i }' >"$place/rows/glue/RTE/dev.tsv"
begin eval glue_rte --data "$place/rows" --model "$place/model" --out "$place/eval" --quiet
await "$place/eval/source.json"
ends 1

# All of them, for longer than a rank may be silent.
pause() {
    await "$place/$1/checkpoints"
    stopped=$(processes "$2")
    kill -STOP $stopped
    result $? "$words: ranks could not be stopped: $(head -n 3 "$place/text")"
    sleep $((seconds + 2))
    [ ! -e "$place/$1/adapter" ]
    result $? "$words: was over before it was stopped"
    kill -CONT $stopped
    wait $job
    result $? "$words: stopped and continued: $(head -n 3 "$place/text")"
    [ -s "$place/$1/adapter/adapter_model.safetensors" ]
    result $? "$words: stopped and continued, no adapter"
}
begin train "$place/run.yaml" out="$place/all" steps=300 checkpoint.every=20 --quiet
pause all '[0-9]*'

# One of them, where nobody minds.
seconds=0
begin train "$place/run.yaml" out="$place/calm" steps=300 checkpoint.every=20 --quiet
seconds=$silence
pause calm 1

# What is not a number of seconds.
METIER_RANK_TIMEOUT=soon ranks 2 "$metier" train "$place/run.yaml" out="$place/no" --quiet >"$place/text" 2>&1
got=$?
[ $got -ne 0 ] && [ $got -ne 124 ] && grep -q "METIER_RANK_TIMEOUT is 'soon', expected seconds" "$place/text"
result $? "METIER_RANK_TIMEOUT=soon: exit status $got, $(head -n 3 "$place/text")"
exit $failed
