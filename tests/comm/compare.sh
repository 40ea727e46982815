#!/bin/bash
# metier compare on many ranks, from outside: each takes a share of the cells, and the tables are those of one; a cell that
# fails anywhere is named; going on with another number of ranks. Usage: compare.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
samples=$(cd "$here/../share/samples" && pwd)
. "$here/comm/launch.sh"
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
"$here/support/train-bench" "$metier" "$place" || exit 1
cat >"$place/compare.yaml" <<END
model: $place/model
out: $place/one
methods: [aux, paper, none]
seeds: [1]
domains: [{name: sums, train: $place/data.jsonl}]
tasks: [glue_cola, {task: gsm8k, max_tokens: 3}]
evaluation: {data: $samples, template: none}
training:
    steps: 4
    data: {max_length: 32}
    batch: {examples: 8, tokens: 64}
    lora: {rank: 4, alpha: 8}
threads: 1
END
echo '/* stands for Chart.js v3.0 */' >"$place/chart.js"

# compare COUNT WORDS...: on so many ranks; what is said is in $place/text.
compare() {
    local count=$1
    shift
    set -- compare "$place/compare.yaml" --chart-js "$place/chart.js" "$@"
    if [ "$count" -eq 1 ]; then
        "$metier" "$@"
    else
        ranks "$count" "$metier" "$@"
    fi >"$place/text" 2>&1
}

# same FOLDER: compare.json is that of one rank, but for times.
same() {
    cmp -s <(grep -v '"times' "$place/one/compare.json") <(grep -v '"times' "$place/$1/compare.json")
    result $? "$1: other tables than of one rank"
}

compare 1
result $? "one rank: $(tail -n 3 "$place/text")"
for count in 2 3; do
    compare $count out="$place/many$count"
    result $? "$count ranks: $(tail -n 3 "$place/text")"
    same many$count
    [ "$(grep -c '^written: ' "$place/text")" -eq 1 ]
    result $? "$count ranks: not one of them talks"
done

# Two ranks train every cell together, with all experts or half of them each: losses as of one rank, to rounding.
losses() { sed -n 's/.*"loss": {"sums": \([^,}]*\).*/\1/p' "$place/$1/compare.json"; }
for experts in 1 2; do
    compare 2 out="$place/each$experts" ranks=each training.parallel.experts=$experts
    result $? "ranks=each: $(tail -n 3 "$place/text")"
    [ "$(grep -c '^written: ' "$place/text")" -eq 1 ] && [ "$(find "$place/each$experts/cells" -name cell.json | wc -l)" -eq 5 ]
    result $? "ranks=each: not all cells, or not one that talks"
    [ "$(losses each$experts | wc -l)" -eq 4 ] && paste <(losses one) <(losses each$experts) |
        awk '{ off = $2 / $1 - 1; if (off * off > 1e-6) exit 1 }'
    result $? "ranks=each: other losses than of one rank: $(losses one | tr '\n' ' ')and $(losses each$experts | tr '\n' ' ')"
    grep -q "\"text\":\"2 ranks, experts over $experts;" "$place/each$experts/cells/aux-sums-s1/run/metrics.jsonl"
    result $? "ranks=each: a cell was not trained by two ranks"
    # Benchmarks, too: of the bases, which nobody trains, the samples are those of one rank byte for byte.
    for samples in $(cd "$place/one" && find cells -path '*base*' -name 'samples_*.jsonl'); do
        cmp -s "$place/one/$samples" "$place/each$experts/$samples"
        result $? "ranks=each: $samples is not as of one rank"
    done
    [ "$(cd "$place/each$experts" && find cells -name 'samples_*.jsonl' | wc -l)" -eq "$(cd "$place/one" && find cells -name 'samples_*.jsonl' | wc -l)" ] &&
        [ -n "$(cd "$place/one" && find cells -path '*base*' -name 'samples_*.jsonl')" ]
    result $? "ranks=each: other benchmarks than of one rank"
done
compare 2 out="$place/each-broken" ranks=each "methods=[{name: broken, method: aux, experts: $place/nowhere}, aux]"
[ $? -eq 1 ] && [ "$(grep -c '^failed: broken-sums-s1: ' "$place/text")" -eq 1 ] && [ -f "$place/each-broken/cells/aux-sums-s1/cell.json" ]
result $? "ranks=each: a cell that fails: $(tail -n 3 "$place/text")"

# A part on one rank, the rest on two.
compare 1 out="$place/parts" "methods=[aux]"
compare 2 out="$place/parts"
result $? "going on with two ranks"
grep -q '^of 3 cells and 2 bases, 2 trained and measured now, 3 before' "$place/text"
result $? "what was there before is not said: $(grep '^of ' "$place/text")"
same parts

# The second cell is the other rank's: it fails there, and is named once.
compare 2 out="$place/broken" "methods=[{name: broken, method: aux, experts: $place/nowhere}, aux]"
[ $? -eq 1 ] && [ "$(grep -c '^failed: broken-sums-s1: ' "$place/text")" -eq 1 ] && [ -f "$place/broken/cells/aux-sums-s1/cell.json" ]
result $? "a cell that fails on another rank: $(tail -n 3 "$place/text")"
compare 2 out="$place/refused" "tasks=[gsm9k]"
[ $? -ne 0 ] && [ "$(grep -c "there is no task 'gsm9k'" "$place/text")" -eq 1 ] && [ ! -e "$place/refused" ]
result $? "a refusal on two ranks: $(tail -n 3 "$place/text")"
exit $failed
