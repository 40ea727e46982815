#!/bin/sh
# metier forward from outside: what it prints, what it writes, what it refuses. Usage: forward.sh METIER
set -u
metier=$1
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
failed=0
passed=0

fail() {
    printf 'FAIL %s\n' "$*"
    failed=$((failed + 1))
}

# expect STATUS TEXT ARGUMENTS...: exit status, and a text on either stream.
expect() {
    status=$1
    text=$2
    shift 2
    "$metier" forward "$@" >"$place/text" 2>&1
    got=$?
    if [ $got -ne "$status" ]; then
        fail "metier forward $*: exit status $got, expected $status"
        cat "$place/text"
    elif ! grep -qF -- "$text" "$place/text"; then
        fail "metier forward $*: no '$text'"
        cat "$place/text"
    else
        passed=$((passed + 1))
    fi
}

# same A B WHAT: two files of the same bytes.
same() {
    if cmp -s "$place/$1" "$place/$2"; then passed=$((passed + 1)); else fail "$3: $1 and $2 differ"; fi
}

differ() {
    if cmp -s "$place/$1" "$place/$2"; then fail "$3: $1 and $2 are the same"; else passed=$((passed + 1)); fi
}

cat >"$place/config.json" <<'END'
{"model_type": "deepseek_v3", "first_k_dense_replace": 1, "hidden_size": 24, "intermediate_size": 44,
 "kv_lora_rank": 14, "max_position_embeddings": 64, "moe_intermediate_size": 10, "n_group": 4,
 "n_routed_experts": 8, "n_shared_experts": 2, "norm_topk_prob": true, "num_attention_heads": 3,
 "num_experts_per_tok": 3, "num_hidden_layers": 3, "num_key_value_heads": 3, "q_lora_rank": null,
 "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "rms_norm_eps": 1e-05, "rope_theta": 50000.0,
 "routed_scaling_factor": 2.446, "scoring_func": "sigmoid", "topk_group": 2, "topk_method": "noaux_tc",
 "v_head_dim": 12, "vocab_size": 53, "initializer_range": 0.3}
END
model=$place/model
"$metier" init --config "$place/config.json" --seed 1 --dtype bf16 --out "$model" >/dev/null 2>&1 || fail "metier init"
printf '5,17,3,50,41\n9 2 2\n\n33,7\n' >"$place/ids.txt"

expect 0 "MaxVio" "$model" --ids 5,17,3,50,41
expect 0 "10 in 3 sequences" "$model" --ids-file "$place/ids.txt"
expect 0 '"max_violation"' "$model" --ids 5,17 --json
expect 0 "mean over 7 labels" "$model" --ids-file "$place/ids.txt" --grads
expect 0 "router_orth" "$model" --ids 5,17,3 --grads --method ernie
expect 0 '"labels": 2' "$model" --ids 5,17,3 --grads --method paper beta=1e-2 --json
expect 0 "examples:" --help

grads="--ids-file $place/ids.txt --grads --training --method metier --train lora --lora-b-std 0.1 --seed 3"
# shellcheck disable=SC2086
for run in "one --threads 1" "two --threads 2" "moe --recompute moe" "full --recompute full" "other --seed 4"; do
    expect 0 "loss" "$model" $grads --out "$place/${run%% *}" ${run#* }
done
same one two "threads"
same one moe "recomputation of the experts"
same one full "recomputation"
differ one other "the seed of LoRA"

# The file is safetensors: its header names what is in it.
for name in logits hidden.0 hidden.2 router_logits.1 experts.2 weights.1 loss loss.h loss.aux scale.o \
    grad.base_model.model.lm_head.lora_A.weight grad.base_model.model.model.layers.2.mlp.gate.lora_B.weight \
    param.base_model.model.model.layers.1.mlp.experts.7.down_proj.lora_A.weight; do
    if grep -aqF "\"$name\"" "$place/one"; then passed=$((passed + 1)); else fail "no $name in the file"; fi
done
if grep -aqF '"router_logits.0"' "$place/one"; then fail "a dense layer has router logits"; fi

expect 2 "a model folder is missing"
expect 1 "cannot open" "$place/nowhere" --ids 1,2
expect 2 "one of --ids and --ids-file is needed" "$model"
expect 2 "'x' is not an id" "$model" --ids 1,x
expect 2 "'-3' is not an id" "$model" --ids 1,-3
expect 2 "outside the model's vocabulary of 53" "$model" --ids 1,53
expect 2 "there is no such file" "$model" --ids-file "$place/nowhere"
expect 2 "there are no ids" "$model" --ids ,
expect 2 "two ids or more" "$model" --ids 1 --grads
expect 2 "are for --grads" "$model" --ids 1,2 --method paper
expect 2 "did you mean 'paper'" "$model" --ids 1,2 --grads --method papr
expect 2 "did you mean 'beta'" "$model" --ids 1,2 --grads --method paper betta=1
expect 2 "given as key=value" "$model" --ids 1,2 --grads --method paper beta
expect 2 "matches no linear map" "$model" --ids 1,2 --grads --train lora --targets nothing
expect 2 "expected full or lora" "$model" --ids 1,2 --grads --train some
expect 2 "expected none, moe or full" "$model" --ids 1,2 --recompute some
expect 2 "expected auto, f32 or bf16" "$model" --ids 1,2 --activations f16
expect 2 "is not built in" "$model" --ids 1,2 --device abacus
expect 2 "unexpected argument 'extra'" "$model" --ids 1,2 extra
expect 2 "router is frozen" "$model" --ids 1,2 --grads --method aux --targets lm_head
expect 1 "cannot create" "$model" --ids 1,2 --out "$place/nowhere/out"
expect 1 "adapter_config.json" "$model" --ids 1,2 --adapter "$place"

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
