#!/bin/bash
# Memory as users meet it: limits that are kept, what is chosen to fit them, and what is said when nothing does.
#   memory.sh METIER METIER_FENCED
set -u
metier=$1
fenced=$2
here=$(cd "$(dirname "$0")/.." && pwd)
METIER_SHARE=$(cd "$here/../share" && pwd)
export METIER_SHARE
unset METIER_FENCED_CARD
. "$here/support/expect.sh"
model=$METIER_SHARE/models/tiny-deepseek-v2
weights=adapter/adapter_model.safetensors

"$metier" synth --domain math --count 60 --seed 1 --out "$place/math.jsonl" >/dev/null || exit 1
cat >"$place/run.yaml" <<END
model: $model
data: {path: $place/math.jsonl, max_length: 256}
lora: {rank: 2, alpha: 4}
method: paper
steps: 4
device: cpu
log: {tensorboard: false}
checkpoint: {every: 2}
END
config=$place/run.yaml

# bytes TEXT: "58.55 MB" as a number.
bytes() {
    awk -v text="$1" 'BEGIN { split(text, part, " "); unit["kB"] = 1e3; unit["MB"] = 1e6; unit["GB"] = 1e9; printf "%.0f\n", part[1] * unit[part[2]] }'
}

# held: the most that the last run held, and its limit.
held() {
    sed -n 's/^memory: at most \([0-9.]* [kMG]B\) held of \([0-9.]* [kMG]B\)$/\1,\2/p' "$place/text"
}

# chosen FOLDER: recompute and batch.tokens, as the run notes them.
chosen() {
    sed -n 's/^ *\(recompute\|tokens\): *\([a-z0-9]*\) .*/\2/p' "$place/$1/config.yaml" | sort | tr '\n' ' '
}

# ---------------------------------------------------------------- training

expect 2 "memory.limit is much, expected auto, an amount as 22GiB or 24GB, or a share as 90%" train "$config" out="$place/x" memory.limit=much
expect 0 "recompute: none, batch.tokens: 4096" train "$config" out="$place/free"
[ "$(chosen free)" = "4096 none " ]
result $? "without a limit '$(chosen free)' was chosen"
expect 0 "recompute: none" train "$config" out="$place/roomy" memory.limit=4GB
same "free/$weights" "roomy/$weights" "a limit that changes nothing"

# As in the days of fixed numbers.
expect 0 "as trained" train "$config" out="$place/fixed" batch.tokens=4096 recompute=none
same "free/$weights" "fixed/$weights" "what was chosen by itself"

# What each size takes, from a plan that nothing fits; it ends with the sentence.
expect 1 "what fits into 1.00 MB (memory.limit: 1MB), the fastest first" train "$config" out="$place/x" memory.limit=1MB --dry-run
grep -q "what helps: .*data.max_length (now 256).*lora.rank (now 2), fewer targets.* a higher memory.limit" "$place/text"
result $? "the sentence does not say what helps"
grep -q "  nothing fits: this run would be refused" "$place/text" && ! grep -q ", taken" "$place/text"
result $? "a plan marks what does not fit as taken"
[ ! -e "$place/x" ]
result $? "a plan left something behind"
sizes=$(sed -n 's/^  \(none\|moe\|full\)  *\([0-9]*\)  *\([0-9.]* [kMG]B\)  .* too much.*/\1,\2,\3/p' "$place/text")
[ "$(printf '%s\n' "$sizes" | wc -l)" -eq 15 ]
result $? "sizes that were tried: $sizes"
full=$(printf '%s\n' "$sizes" | sed -n 's/^full,4096,//p')
half=$(printf '%s\n' "$sizes" | sed -n 's/^full,2048,//p')

# A limit that recomputation fits: the same bytes as without, and less memory.
limit=$(($(bytes "$full") + 300000))
expect 0 "recompute: full, batch.tokens: 4096" train "$config" out="$place/full" memory.limit=${limit}B
grep -q "chosen to fit; faster with recompute: none, batch.tokens: 4096, which take" "$place/text"
result $? "the first lines do not say what would be faster"
IFS=, read -r most of <<<"$(held)"
[ -n "$most" ] && [ "$(bytes "$most")" -le $limit ]
result $? "under a limit of $limit bytes a run held '$most' of '$of'"
same "free/$weights" "full/$weights" "recomputation"
expect 0 "with " train "$config" out="$place/x" memory.limit=${limit}B --dry-run
grep -q "fits, taken" "$place/text" && grep -q "  with .* more, recompute: moe and batch.tokens: 4096 would fit, which is faster" "$place/text"
result $? "the plan does not say what would be faster"

# One that only fewer tokens fit. The run keeps them when it goes on, whatever is free by then.
limit=$(($(bytes "$half") + 300000))
expect 0 "recompute: full, batch.tokens: 2048" train "$config" out="$place/half" memory.limit=${limit}B
[ "$(chosen half)" = "2048 full " ]
result $? "under $limit bytes '$(chosen half)' was chosen"
IFS=, read -r most of <<<"$(held)"
[ -n "$most" ] && [ "$(bytes "$most")" -le $limit ]
result $? "under a limit of $limit bytes a run held '$most' of '$of'"
cp -r "$place/half" "$place/parts"
rm -r "$place/parts/adapter" "$place/parts/checkpoints/step-00000004"
cp -r "$place/parts" "$place/narrow"
expect 0 "recompute: full, batch.tokens: 2048" train "$config" out="$place/parts"
same "half/$weights" "parts/$weights" "going on with what was chosen"
expect 1 "with recompute: full and batch.tokens: 2048, with which it began, this run takes" train "$config" out="$place/narrow" memory.limit=3MB
! grep -q "lora.rank" "$place/text" && grep -q "what helps: " "$place/text"
result $? "a run that goes on is told to change what decides its result: $(tail -n 1 "$place/text")"
expect 2 "batch.tokens was 2048 when this run began and is 4096 now" train "$config" out="$place/narrow" batch.tokens=4096
expect 0 "recompute: none, batch.tokens: 2048" train "$config" out="$place/narrow" recompute=none
same "half/$weights" "narrow/$weights" "going on with other recomputation"

# ---------------------------------------------------------------- answering

printf '%s\n' '{"prompt": "12+30="}' '{"prompt": "7*6="}' '{"prompt": "8-3="}' >"$place/prompts.jsonl"
expect 0 "together: 32 sequences" generate "$model" --in "$place/prompts.jsonl" --out "$place/all.jsonl" --device cpu
expect 0 "together: 1 sequence" generate "$model" --in "$place/prompts.jsonl" --out "$place/one.jsonl" --device cpu --memory 30MB
same all.jsonl one.jsonl "answers in less memory"
expect 1 "what helps: fewer sequences at a time" generate "$model" --in "$place/prompts.jsonl" --out "$place/none.jsonl" --device cpu --memory 5MB
expect 2 "--memory is 'little', expected" generate "$model" --prompt 1+1= --memory little
expect 0 "together: 1 sequence" eval gsm8k --data "$METIER_SHARE/samples" --model "$model" --out "$place/eval" --limit 2 --device cpu --memory 30MB
expect 2 "--memory means nothing with --endpoint" eval gsm8k --endpoint http://127.0.0.1:1 --model m --memory 40MB

# ---------------------------------------------------------------- a card

# The fence is slow: few tokens.
small=(data.max_length=32 batch.examples=8)
expect 0 "as trained" train "$config" "${small[@]}" out="$place/host"
metier=$fenced
export METIER_FENCED_CARD=1000000000
expect 1 "what fits into 1.00 MB" train "$config" "${small[@]}" out="$place/x" device=cuda memory.limit=1MB --dry-run
need=$(sed -n 's/^  none  *4096  *\([0-9.]* [kMG]B\)  .* too much$/\1/p' "$place/text")
least=$(sed -n 's/^  full  *4096  *\([0-9.]* [kMG]B\)  .* too much.*/\1/p' "$place/text")
expect 0 "recompute: none" train "$config" "${small[@]}" out="$place/card" device=cuda
expect 0 "recompute: full, batch.tokens: 4096, the embedding in the host's memory" train "$config" "${small[@]}" out="$place/card2" device=cuda memory.limit=$(($(bytes "$least") + 20000))B
IFS=, read -r most of <<<"$(held)"
[ -n "$most" ] && [ "$(bytes "$most")" -le "$(bytes "$of")" ] && [ "$(bytes "$of")" -lt "$(bytes "$need")" ]
result $? "a card held '$most' of '$of'"
same "card/$weights" "card2/$weights" "recomputation on a card"
same "host/$weights" "card/$weights" "a card beside the host"
expect 0 "together: 1 sequence" generate "$model" --in "$place/prompts.jsonl" --out "$place/card.jsonl" --device cuda --memory 15MB

# What is free is not refused beforehand: a card that is too small is tried, and then says so.
METIER_FENCED_CARD=5000000 expect 0 "nothing fits what is free now: the run would be tried with" train "$config" "${small[@]}" out="$place/small" device=cuda --dry-run
! grep -q ", taken" "$place/text"
result $? "a plan marks what does not fit a card as taken"
METIER_FENCED_CARD=5000000 expect 1 "out of memory: " train "$config" "${small[@]}" out="$place/small" device=cuda
grep -q "warning: this run takes .*, and 5.00 MB are free; what helps: " "$place/text" &&
    grep -q "the card has no room for .*; the device cuda holds .* are free; what helps: activations: bf16, a smaller batch.tokens" "$place/text"
result $? "a card that is too small: $(tail -n 2 "$place/text")"
[ ! -e "$place/small" ]
result $? "a run that could not begin left a folder"

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
