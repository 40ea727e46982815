#!/bin/bash
# parallel.experts: auto. With room for all experts ranks are data parallel, with less the fewest that fit share them, with none
# the run is refused; dry run, terminal, log and record say which and why. Ranks with different limits choose the same. A run
# goes on as it was chosen, and other ranks choose again. Usage: auto.sh METIER
set -u
metier=$(realpath "$1")
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"
"$here/support/train-bench" "$metier" "$place" || exit 1
sed -i 's/"hidden_size": 32/"hidden_size": 128/; s/"moe_intermediate_size": 16/"moe_intermediate_size": 1024/; s/"num_experts": 6/"num_experts": 16/' "$place/config.json"
rm -rf "$place/model"
"$metier" init --config "$place/config.json" --seed 1 --dtype f32 --out "$place/model" >/dev/null 2>&1 || exit 1
cp "$here/formats/golden/tokenizers/deepseek.json" "$place/model/tokenizer.json"
{ cat "$place/run.yaml"; echo "threads: 1"; } | sed 's/^steps: .*/steps: 4/; s/^checkpoint: .*/checkpoint: {every: 2}/' >"$place/auto.yaml"

# launch RANKS WORDS...: what is said is in $place/text.
launch() {
    local ranks=$1
    shift
    "$metier" launch -n "$ranks" train "$place/auto.yaml" recompute=none parallel.experts=auto "$@" >"$place/text" 2>&1
}

# kB that a rank takes: with as many ranks that share the experts.
taken() {
    "$metier" launch -n 4 train "$place/auto.yaml" recompute=none parallel.experts="$1" memory.limit=1kB --dry-run 2>/dev/null |
        awk '/too much/ { print $3 * ($4 == "MB" ? 1000 : 1) + 200; exit }'
}
one=$(taken 1) two=$(taken 2) four=$(taken 4)
awk "BEGIN { exit !($one > $two && $two > $four && $four > 0) }"
result $? "more ranks that share experts hold no less: $one, $two, $four kB"
for case in "1 $one" "2 $two" "4 $four"; do
    sharing=${case% *}
    limit=${case#* }kB
    launch 4 out="$place/$sharing" memory.limit="$limit" --dry-run
    result $? "dry run with $limit: $(tail -n 2 "$place/text")"
    [ "$sharing" -eq 1 ] && why="data parallel, every rank with all experts" || why="$sharing of 4 ranks share the experts: a rank with all of them needs at least"
    grep -q "^parallel.experts: auto: $why" "$place/text"
    result $? "with $limit the dry run says $(grep '^parallel' "$place/text")"
    launch 4 out="$place/$sharing" memory.limit="$limit"
    result $? "a run with $limit: $(tail -n 2 "$place/text")"
    grep -q "^parallel.experts: $why" "$place/text" && grep -q "\"event\":\"parallel\",\"text\":\"$why" "$place/$sharing/metrics.jsonl"
    result $? "with $limit a run says $(grep '^parallel' "$place/text")"
    grep -q "^ *experts: *$sharing  *# ranks that share" "$place/$sharing/config.yaml"
    result $? "the record has not parallel.experts: $sharing"
done
launch 4 out="$place/none" memory.limit=1MB
[ $? -ne 0 ] && grep -q "parallel.experts is auto, and nothing fits: with the experts over 4 of 4 ranks a rank needs at least" "$place/text" && [ ! -e "$place/none/metrics.jsonl" ]
result $? "no room at all: $(tail -n 2 "$place/text")"

# Ranks that may hold different amounts.
export MASTER_ADDR=localhost MASTER_PORT=$((20000 + $$ % 20000)) WORLD_SIZE=2
for rank in 1 0; do
    RANK=$rank LOCAL_RANK=$rank "$metier" train "$place/auto.yaml" recompute=none parallel.experts=auto out="$place/apart" \
        memory.limit="$(awk "BEGIN { print $rank == 0 ? $one * 2 : $two + 1000 }")kB" >"$place/said-$rank" 2>&1 &
    pids[rank]=$!
done
wait "${pids[0]}" && wait "${pids[1]}"
result $? "two limits: $(tail -n 2 "$place/said-0" "$place/said-1")"
grep -q "^parallel.experts: 2 of 2 ranks share the experts" "$place/said-0"
result $? "two limits: $(grep '^parallel' "$place/said-0")"
unset MASTER_ADDR MASTER_PORT WORLD_SIZE

# Begun with the experts over two, with room for all when it goes on: they stay there. With three ranks they cannot.
launch 4 out="$place/on" memory.limit="${two}kB" steps=4 optimizer.schedule=constant
launch 4 out="$place/on" memory.limit="$((${one%.*} * 2))kB" steps=4 optimizer.schedule=constant --dry-run
grep -q "^ *experts: *2  *# ranks that share" "$place/text" && ! grep -q "^parallel.experts" "$place/text"
result $? "a run that goes on: $(grep -A2 parallel "$place/text")"
launch 3 out="$place/on" memory.limit="$((${one%.*} * 2))kB" steps=4 optimizer.schedule=constant --dry-run
grep -q "^parallel.experts: auto: data parallel" "$place/text"
result $? "a run that goes on with three ranks: $(tail -n 3 "$place/text")"

printf '%d as expected, %d not\n' $passed $failed
[ $failed -eq 0 ]
