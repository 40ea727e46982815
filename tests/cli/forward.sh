#!/bin/sh
# metier forward from outside: what it prints, what it writes, what it refuses. Usage: forward.sh METIER
set -u
metier=$1
. "$(dirname "$0")/../support/expect.sh"

# forward STATUS TEXT ARGUMENTS...: expect, of the verb.
forward() {
    wanted=$1
    said=$2
    shift 2
    expect "$wanted" "$said" forward "$@"
}

model=$place/model
"$(dirname "$0")/../support/deepseek-model" "$metier" "$place" 64 53 || fail "metier init"
printf '5,17,3,50,41\n9 2 2\n\n33,7\n' >"$place/ids.txt"

forward 0 "MaxVio" "$model" --ids 5,17,3,50,41
forward 0 "10 in 3 sequences" "$model" --ids-file "$place/ids.txt"
forward 0 '"max_violation"' "$model" --ids 5,17 --json
forward 0 "mean over 7 labels" "$model" --ids-file "$place/ids.txt" --grads
forward 0 "router_orth" "$model" --ids 5,17,3 --grads --method ernie
forward 0 '"labels": 2' "$model" --ids 5,17,3 --grads --method paper beta=1e-2 --json
forward 0 "examples:" --help

grads="--ids-file $place/ids.txt --grads --training --method metier --train lora --lora-b-std 0.1 --seed 3"
# shellcheck disable=SC2086
for run in "one --threads 1" "two --threads 2" "moe --recompute moe" "full --recompute full" "other --seed 4"; do
    forward 0 "loss" "$model" $grads --out "$place/${run%% *}" ${run#* }
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

forward 2 "a model folder is missing"
forward 1 "cannot open" "$place/nowhere" --ids 1,2
forward 2 "one of --ids and --ids-file is needed" "$model"
forward 2 "'x' is not an id" "$model" --ids 1,x
forward 2 "'-3' is not an id" "$model" --ids 1,-3
forward 2 "outside the model's vocabulary of 53" "$model" --ids 1,53
forward 2 "there is no such file" "$model" --ids-file "$place/nowhere"
forward 2 "there are no ids" "$model" --ids ,
forward 2 "two ids or more" "$model" --ids 1 --grads
forward 2 "need --grads" "$model" --ids 1,2 --method paper
forward 2 "did you mean 'paper'" "$model" --ids 1,2 --grads --method papr
forward 2 "did you mean 'beta'" "$model" --ids 1,2 --grads --method paper betta=1
forward 2 "given as key=value" "$model" --ids 1,2 --grads --method paper beta
forward 2 "matches no linear layer" "$model" --ids 1,2 --grads --train lora --targets nothing
forward 2 "expected full or lora" "$model" --ids 1,2 --grads --train some
forward 2 "expected none, moe or full" "$model" --ids 1,2 --grads --recompute some
forward 2 "--recompute means nothing without --grads" "$model" --ids 1,2 --recompute moe
forward 2 "--targets means nothing without --grads" "$model" --ids 1,2 --targets router
forward 2 "--rank means nothing without --train lora" "$model" --ids 1,2 --grads --rank 4
forward 2 "--lora-b-std means nothing without --train lora" "$model" --ids 1,2 --lora-b-std 1
forward 2 "--seed means nothing without --train lora or --training" "$model" --ids 1,2 --seed 4
forward 2 "--adapter-layout means nothing without --save-adapter" "$model" --ids 1,2 --adapter-layout fused
forward 2 "form=cosine means nothing here: L_o is off" "$model" --ids 1,2 --grads --method aux form=cosine
forward 2 "jitter=0.3 means nothing here: without --training" "$model" --ids 1,2 --grads --method aux jitter=0.3
forward 2 "expected auto, f32 or bf16" "$model" --ids 1,2 --activations f16
forward 2 "is not built in" "$model" --ids 1,2 --device abacus
forward 2 "unexpected argument 'extra'" "$model" --ids 1,2 extra
forward 2 "router is frozen" "$model" --ids 1,2 --grads --method aux --targets lm_head
forward 1 "cannot create" "$model" --ids 1,2 --out "$place/nowhere/out"
forward 1 "adapter_config.json" "$model" --ids 1,2 --adapter "$place"

# Figures that are not finite: null, not left out, and JSON that every reader takes.
"$(dirname "$0")/../support/poison-model" "$model" || fail "poison-model"
forward 0 '"loss": null' "$model" --ids 5,17,3 --grads --method ernie --json
forward 0 '"loss_h": null' "$model" --ids 5,17,3 --grads --json
if grep -qi 'nan\|inf' "$place/text"; then fail "a number that JSON has not: $(grep -i 'nan\|inf' "$place/text")"; fi

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
