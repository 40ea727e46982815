#!/bin/bash
# metier eval and metier analyze with a model's experts spread over ranks, as for a model that no card has room for: the files
# are those of one rank, byte for byte. More ranks than samples, killed and resumed; what cannot be is refused; a rank that fails ends
# all. Usage: spread.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
samples=$here/../share/samples
. "$here/comm/launch.sh"
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
"$here/support/train-bench" "$metier" "$place" || exit 1
model=$place/model
"$metier" train "$place/run.yaml" --quiet steps=4 >/dev/null 2>&1 || exit 1

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
    [ -e "$place/$2/results.json" ] || { result 1 "$2 has no results"; return; }
    for name in $(cd "$place" && ls "$1" "$2" | grep -v -e : -e '\.tmp\.' | sort -u); do
        cmp -s <(grep -av '"total_evaluation_time_seconds"' "$place/$1/$name") \
            <(grep -av '"total_evaluation_time_seconds"' "$place/$2/$name")
        result $? "$name: $1 and $2 differ"
    done
}

# Answers and choices; 3 experts a rank, and 1 or 2; groups that share them beside each other; ranks without a sample.
tasks="gsm8k mmlu_astronomy glue_cola --data $samples --model $model --adapter $place/run/adapter --max-new 12 --limit 9"
# shellcheck disable=SC2086
run 1 eval $tasks --out "$place/one"
result $? "eval on one rank: $(tail -n 3 "$place/text")"
for case in "2 2" "4 4" "4 2" "3 3"; do
    name=${case// /-}
    # shellcheck disable=SC2086
    run "${case% *}" eval $tasks --experts "${case#* }" --out "$place/eval-$name"
    result $? "eval on ranks $case: $(tail -n 3 "$place/text")"
    same one "eval-$name"
done
# shellcheck disable=SC2086
run 1 eval ${tasks/--limit 9/--limit 1} --out "$place/few"
# shellcheck disable=SC2086
run 4 eval ${tasks/--limit 9/--limit 1} --experts 4 --out "$place/few-4"
result $? "one sample on four ranks: $(tail -n 3 "$place/text")"
same few few-4
# What two ranks had finished, four go on with.
# shellcheck disable=SC2086
run 2 eval ${tasks/--limit 9/--limit 4} --experts 2 --out "$place/on"
# shellcheck disable=SC2086
run 4 eval $tasks --experts 2 --out "$place/on"
result $? "going on: $(tail -n 3 "$place/text")"
same one on

# A rank that is killed ends all, whatever they wait for; the finished samples stay, and one rank goes on.
more=${tasks/--max-new 12/--max-new 60}
# shellcheck disable=SC2086
run 1 eval $more --no-routing --out "$place/calm"
# shellcheck disable=SC2086
"$metier" launch -n 2 eval $more --no-routing --slots 1 --experts 2 --out "$place/killed" >"$place/text" 2>&1 &
job=$!
until cat "$place"/killed/*amples_*.jsonl "$place"/killed/part_* 2>/dev/null | grep -q . || ! kill -0 $job 2>/dev/null; do sleep 0.05; done
victim=$(pgrep -P $job | tail -n 1)
[ -n "$victim" ] && kill -KILL "$victim"
wait $job
[ $? -ne 0 ] && ! pgrep -P $job >/dev/null
result $? "a killed rank: $(tail -n 3 "$place/text")"
# shellcheck disable=SC2086
run 1 eval $more --no-routing --out "$place/killed"
result $? "going on after a kill: $(tail -n 3 "$place/text")"
same calm killed

for i in $(seq 200); do
    printf 'Some words of another kind, number %d, and what they say.\nA second line.\n\n' "$i"
done >"$place/words.txt"
for case in "1 1" "2 2" "4 4" "4 2"; do
    name=${case// /-}
    run "${case% *}" analyze --model "$model" --adapter "$place/run/adapter" --data "$place/data.jsonl=sums" \
        --data "$place/words.txt" --sample 100 --queries 40 --tokens 3000 --length 64 --cache 2,3 --experts "${case#* }" --out "$place/analysis-$name"
    result $? "analyze on ranks $case: $(tail -n 3 "$place/text")"
    cmp -s "$place/analysis-1-1/analysis.json" "$place/analysis-$name/analysis.json"
    result $? "analyze: one rank and $case differ: $(diff "$place/analysis-1-1/analysis.json" "$place/analysis-$name/analysis.json" | head -n 4)"
done

# refused COUNT TEXT ARGUMENTS...
refused() {
    local count=$1 text=$2
    shift 2
    run "$count" "$@"
    local got=$?
    [ $got -ne 0 ] && [ $got -ne 124 ] && grep -q -- "$text" "$place/text"
    result $? "$count ranks, $*: exit status $got, $(head -n 3 "$place/text")"
}
# shellcheck disable=SC2086
refused 2 "experts is 3, which does not divide the 2 ranks" eval $tasks --experts 3 --out "$place/no"
# shellcheck disable=SC2086
refused 1 "experts is 2, which does not divide the 1 rank" eval $tasks --experts 2 --out "$place/no"
refused 2 "experts is 0, which does not divide" analyze --model "$model" --data "$place/words.txt" --json --experts 0
exit $failed
