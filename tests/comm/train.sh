#!/bin/bash
# metier train on many ranks, from outside: the same result, every way to fail, going on elsewhere.
# Usage: train.sh METIER RANK_RUNS RANK_BYTES METIER_FENCED
set -u
metier=$1
runs=$2
bytes=$3
fenced=$4
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/comm/launch.sh"
export METIER_GOLDEN=$here/formats/golden METIER_TEMPLATES=$here/../share/templates
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT

for mode in "2 same 1" "4 same 2" "3 resume" "4 resume" "4 shards" "4 memory"; do
    mkdir "$place/runs"
    # shellcheck disable=SC2086
    set -- $mode
    ranks "$1" "$runs" "$place/runs" "$2" ${3:+"$3"} || result 1 "rank_runs $mode"
    rm -rf "$place/runs"
done

# What is sent is what the formulas say, to the byte.
for count in 2 4; do
    mkdir "$place/runs"
    ranks $count "$bytes" "$place/runs" || result 1 "rank_bytes on $count ranks"
    rm -rf "$place/runs"
done

mkdir "$place/runs"
ranks 2 "$runs" "$place/runs" room >"$place/text" 2>&1
got=$?
[ $got -ne 0 ] && [ $got -ne 124 ] && grep -q "^metier: rank [01] of 2: .*parallel.room" "$place/text"
result $? "too little room: exit status $got, $(head -n 3 "$place/text")"
rm -rf "$place/runs"

"$here/support/train-bench" "$metier" "$place" || exit 1
config=$place/run.yaml
weights=adapter/adapter_model.safetensors

# expect STATUS TEXT COUNT ARGUMENTS...: 0 or not; the text is the first line of ours.
expect() {
    local status=$1 text=$2 count=$3
    shift 3
    ranks "$count" "$metier" "$@" >"$place/text" 2>&1
    local got=$?
    [ $got -ne 0 ] && [ $got -ne 124 ] && got=1
    grep -m 1 '^metier' "$place/text" | grep -qF -- "$text"
    local bad=$?
    [ -n "$text" ] || bad=0
    [ $got -eq "$status" ] || bad=1
    [ $bad -eq 0 ] || cat "$place/text"
    result $bad "$count ranks, $*: exit status $got, expected $status and \"$text\""
}

"$metier" plan "$place/model" --ranks 4 parallel.experts=2 --max-violation 0.5 --table | grep -q "^ *4 *2 "
result $? "metier plan has no line for 4 ranks"
slow=$("$metier" plan --model "$place/model" --nodes 4 --link ethernet-10 parallel.experts=2 | sed -n 's/.*time of a step *\([0-9.]*\).*/\1/p')
fast=$("$metier" plan --model "$place/model" --nodes 4 --link infiniband-ndr parallel.experts=2 | sed -n 's/.*time of a step *\([0-9.]*\).*/\1/p')
awk "BEGIN { exit !($slow > $fast && $fast > 0) }"
result $? "metier plan: '$slow' ms on a slow network, '$fast' on a fast one"
"$metier" plan "$place/model" --link carrier-pigeon 2>&1 | grep -q "links.yaml has pcie-4, pcie-5"
result $? "metier plan knows a link that is none"

# A run that nobody disturbs, and its bytes again.
expect 0 "" 3 train "$config" out="$place/whole" --quiet
expect 0 "" 3 train "$config" out="$place/again" --quiet
cmp -s "$place/whole/$weights" "$place/again/$weights"
result $? "the same ranks gave other bytes"
[ "$(grep -c '"kind":"step"' "$place/whole/metrics.jsonl")" -eq 7 ]
result $? "more than one rank wrote the log"

# Each rank has written its part of the checkpoints. Where one is missing, of another step, cut off or more than the
# manifest says, it is named, and the run goes on from the checkpoint before, with another number of ranks.
expect 0 "" 3 train "$config" out="$place/parts" steps=9 checkpoint.every=3 checkpoint.keep=3 --quiet
newest=$place/parts/checkpoints/step-00000009
[ "$(ls "$newest" | tr '\n' ' ')" = "manifest.json state-1.safetensors state-2.safetensors state.safetensors " ]
result $? "three ranks wrote $(ls "$newest")"
# spoiled TEXT COMMAND...: what is said of a copy of that run after the command.
spoiled() {
    local text=$1
    shift
    rm -rf "$place/spoiled"
    cp -r "$place/parts" "$place/spoiled"
    rm -rf "$place/spoiled/adapter"
    (cd "$place/spoiled/checkpoints/step-00000009" && "$@")
    ranks 2 "$metier" train "$config" out="$place/spoiled" steps=9 checkpoint.every=3 --quiet >"$place/text" 2>&1 &&
        grep -qF -- "the checkpoint of step 9 cannot be used" "$place/text" && grep -qF -- "$text" "$place/text" &&
        [ -s "$place/spoiled/$weights" ]
    result $? "$*: $(head -n 3 "$place/text")"
}
spoiled "step-00000009/state-1.safetensors: cannot open: No such file" rm state-1.safetensors
spoiled "step-00000009/state-2.safetensors: is damaged" cp ../step-00000006/state-2.safetensors .
spoiled "step-00000009/state-2.safetensors: has " cp state-1.safetensors state-2.safetensors
spoiled "step-00000009/state.safetensors: has 0 bytes" truncate -s 0 state.safetensors
spoiled "step-00000009/manifest.json: is damaged" sed -i '/state-1/d' manifest.json

# One rank sees other files than the others.
cp -r "$place/parts" "$place/elsewhere"
rm "$place/elsewhere/checkpoints/step-00000009/state-2.safetensors"
in_time mpirun --oversubscribe --bind-to none -n 2 "$metier" train "$config" out="$place/parts" steps=9 --quiet : \
    -n 1 "$metier" train "$config" out="$place/elsewhere" steps=9 --quiet >"$place/text" 2>&1
got=$?
[ $got -ne 0 ] && [ $got -ne 124 ] &&
    grep -q '^metier train: .*a rank can use the checkpoint of step 9, another only that of step 6' "$place/text"
result $? "one rank without a checkpoint: exit status $got, $(head -n 3 "$place/text")"

# The routers' own choices, given in a file: every rank finds its sequences, spread experts get their rows.
"$metier" train "$config" --record-choices "$place/choices" --quiet >/dev/null
for sharing in 1 3; do
    expect 0 "" 3 train "$config" out="$place/own-$sharing" steps=1 optimizer.warmup=0 parallel.experts=$sharing --quiet
    expect 0 "" 3 train "$config" out="$place/given-$sharing" steps=1 optimizer.warmup=0 parallel.experts=$sharing \
        data.choices="$place/choices" --quiet
    cmp -s "$place/own-$sharing/$weights" "$place/given-$sharing/$weights"
    result $? "experts over $sharing: the routers' own choices change bytes"
done
expect 1 "has no choices for a sequence of 16 tokens" 3 train "$config" out="$place/short" data.max_length=16 data.choices="$place/choices"

# Memory the host cannot read: rows, gradients and shards go by way of the host, to the same bytes. Once with shared
# experts, which compute while rows travel; once in bf16, where the first layer's rows travel as f32.
cat >"$place/shared.json" <<'END'
{"model_type": "deepseek_v3", "hidden_size": 24, "intermediate_size": 44, "moe_intermediate_size": 10, "kv_lora_rank": 14,
 "q_lora_rank": null, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 12, "num_attention_heads": 3,
 "num_key_value_heads": 3, "num_hidden_layers": 3, "first_k_dense_replace": 1, "n_routed_experts": 8, "n_shared_experts": 2,
 "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
 "norm_topk_prob": true, "routed_scaling_factor": 2.4, "vocab_size": 440, "max_position_embeddings": 64,
 "rms_norm_eps": 1e-05, "rope_theta": 50000.0, "initializer_range": 0.3, "bos_token_id": 420, "eos_token_id": 421}
END
"$metier" init --config "$place/shared.json" --seed 1 --out "$place/shared" >/dev/null 2>&1 || exit 1
cp "$place/model/tokenizer.json" "$place/shared/"
for layout in "model 1 f32" "model 2 bf16" "shared 4 f32"; do
    # shellcheck disable=SC2086
    set -- $layout
    name=$1
    sharing=$2
    words="model=$place/$name parallel.experts=$sharing steps=6 checkpoint.every=3"
    [ "$sharing" = 1 ] || words="$words parallel.transfer=staged"
    words="$words activations=$3"
    # shellcheck disable=SC2086
    expect 0 "" 4 train "$config" out="$place/host$sharing" $words --quiet
    # shellcheck disable=SC2086
    ranks 4 "$fenced" train "$config" out="$place/fenced$sharing" $words device=fenced --quiet >"$place/text" 2>&1 &&
        cmp -s "$place/host$sharing/$weights" "$place/fenced$sharing/$weights" &&
        diff -rq -x manifest.json "$place/host$sharing/checkpoints/step-00000006" \
            "$place/fenced$sharing/checkpoints/step-00000006" &&
        [ -f "$place/fenced$sharing/checkpoints/step-00000006/state-3.safetensors" ]
    result $? "a device with memory of its own, $name, experts over $sharing: $(head -n 3 "$place/text")"
done
ranks 2 "$fenced" train "$config" out="$place/direct" parallel.experts=2 parallel.transfer=direct device=fenced --quiet \
    >"$place/text" 2>&1
got=$?
[ $got -ne 0 ] && [ $got -ne 124 ] && grep -q "parallel.transfer is direct, but this MPI cannot read the memory" "$place/text"
result $? "rows straight from memory MPI cannot read: exit status $got, $(head -n 3 "$place/text")"

# What every rank did when: every kind of span is there, each sum has both its ends, and nobody's are lost.
expect 0 "" 4 train "$config" out="$place/seen" parallel.experts=2 steps=4 --quiet --timeline "$place/line.json"
grep -q "line.json: .*sums of gradients were under way for .* % of it behind backward" "$place/text"
result $? "nothing is said about the timeline: $(cat "$place/text")"
python3 - "$place/line.json" <<'END'
import json, sys
spans = json.load(open(sys.argv[1]))
for rank in range(4):
    own = [span for span in spans if span["pid"] == rank]
    kinds = {span["cat"] for span in own if "cat" in span}
    wanted = {"data", "forward", "backward", "optimizer", "exchange", "gather", "save", "wait for sums", "sum", "values",
              "rows"}
    assert kinds == wanted, kinds
    begins = [span for span in own if span["ph"] == "b"]
    ends = [span for span in own if span["ph"] == "e"]
    assert len(begins) == len(ends) >= 16, (len(begins), len(ends))  # two groups, four steps, there and back
    assert len([span for span in own if span["name"] == "backward 0"]) >= 4
    assert all(span.get("dur", 0) >= 0 for span in own)
END
result $? "the timeline is not what it should be"
expect 1 "cannot" 2 train "$config" out="$place/unseen" --quiet --timeline "$place/nowhere/line.json"

# What is wrong everywhere is told once; what one rank finds out, by that rank.
expect 1 "lora.rank" 2 train "$config" lora.rnak=3
[ "$(grep -c '^metier train' "$place/text")" -eq 1 ]
result $? "more than one rank told what all knew"
expect 1 "cannot open" 2 train "$place/nothing.yaml"
in_time "${start[@]}" -n 2 "$metier" train "$config" out="$place/mixed" --quiet : \
    -n 1 "$metier" train "$place/nothing.yaml" >"$place/text" 2>&1
got=$?
[ $got -ne 0 ] && [ $got -ne 124 ] && grep '^metier' "$place/text" | head -n 1 | grep -q "rank 2: .*nothing.yaml"
result $? "one rank without its configuration: exit status $got, $(head -n 3 "$place/text")"

# A token whose embedding is not a number, in one example: one rank meets it, all leave.
"$here/support/poisoned-model" "$metier" "$place/model" "$place/poisoned" || exit 1
(cat "$place/data.jsonl"; echo '{"prompt": "Z", "completion": " ok"}') >"$place/poison.jsonl"
expect 1 "the embedding of a token is not finite" 3 train "$config" model="$place/poisoned" \
    out="$place/nan" data.path="$place/poison.jsonl" batch.tokens=32 --quiet
grep -q "^metier train: rank [012]: step" "$place/text"
result $? "nobody said which rank met what is not a number"
expect 1 "is not the folder of a run" 2 train "$config" out="$place" --quiet

# A rank is killed: the others end, and the run goes on to the same bytes.
ranks 3 "$metier" train "$config" out="$place/killed" steps=30 checkpoint.every=2 --quiet >"$place/text" 2>&1 &
job=$!
until_true $job [ -d "$place/killed/checkpoints/step-00000004" ]
victim=$(pgrep -f "train $config out=$place/killed" | while read -r pid; do
    grep -qz $rank_variable=1 "/proc/$pid/environ" 2>/dev/null && echo "$pid"
done | head -n 1)
if [ -n "$victim" ]; then
    kill -KILL "$victim" 2>/dev/null
    wait $job
    got=$?
    { [ $got -ne 0 ] && [ $got -ne 124 ]; } || [ -s "$place/killed/$weights" ]
    result $? "a rank was killed: exit status $got"
else
    wait $job # it was faster than we
fi
expect 0 "" 3 train "$config" out="$place/killed" checkpoint.every=2 --quiet
cmp -s "$place/whole/$weights" "$place/killed/$weights"
result $? "killed and gone on with: other bytes"

# Asked to end: the step at hand is saved, and another number of ranks goes on.
ranks 2 "$metier" train "$config" out="$place/asked" steps=2000 --quiet >"$place/text" 2>&1 &
job=$!
until_true $job [ -d "$place/asked/checkpoints/step-00000010" ]
for pid in $(pgrep -f "metier train $config out=$place/asked"); do
    grep -qz $rank_variable= "/proc/$pid/environ" 2>/dev/null && kill -TERM "$pid"
done
wait $job
grep -q "which is saved" "$place/text"
result $? "asked to end: $(tail -n 3 "$place/text")"
step=$(ls "$place/asked/checkpoints" | grep -v tmp | tail -n 1)
"$metier" train "$config" out="$place/asked" steps=2000 --quiet >"$place/text" 2>&1 &
job=$!
further() { [ "$(ls "$place/asked/checkpoints" | grep -v tmp | tail -n 1)" != "$step" ]; }
until_true $job further
kill -TERM $job
wait $job
grep -q "which is saved" "$place/text"
result $? "one rank went on from two: $(tail -n 3 "$place/text")"
exit $failed
