#!/bin/bash
# Choices of experts in a file: recorded, trained with, resumed, refused. Usage: choices.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

"$here/support/train-bench" "$metier" "$place" || exit 1
cd "$place" || exit 1
weights=adapter/adapter_model.safetensors
choices=$place/own.safetensors

# train OUT WORDS...: a run without warm-up, so that its first step changes something.
train() {
    out=$1
    shift
    expect 0 "as trained" train run.yaml --quiet out="$place/$out" optimizer.warmup=0 "$@"
}

expect 0 "2 of 6 experts in 2 MoE layers for 2486 tokens of 120 sequences" train run.yaml --record-choices "$choices"
[ ! -e run ]
result $? "recording wrote a run"
expect 0 "120 sequences" train run.yaml --record-choices again.safetensors data.layout=in-order --threads 2
same own.safetensors again.safetensors "recorded twice"

# At first the routers choose what the file says: the same bytes after a step.
for method in none paper densemixer; do
    train "own-$method" method=$method steps=1
    train "given-$method" method=$method steps=1 data.choices="$choices"
    same "own-$method/$weights" "given-$method/$weights" "$method, one step"
    grep -q '"agreement":1,' "given-$method/metrics.jsonl"
    result $? "$method: the routers do not agree with their own choices"
done
grep -q '"agreement":null' own-none/metrics.jsonl
result $? "agreement without choices"

# Other experts, the next one of each: another result, and the routers rarely agree. Numbers of experts are the file's last bytes.
bytes=$((2486 * 2 * 2))
{
    head -c -$bytes own.safetensors
    tail -c $bytes own.safetensors | tr '\000\001\002\003\004\005' '\001\002\003\004\005\000'
} >other.safetensors
train other method=none steps=1 data.choices="$place/other.safetensors"
differ "own-none/$weights" "other/$weights" "other choices"
agreed=$(grep -o '"agreement":[^,[]*' other/metrics.jsonl | head -n 1 | cut -d: -f2)
awk -v share="$agreed" 'BEGIN { exit !(share > 0 && share < 0.6) }'
result $? "other choices: the routers agree in $agreed"

# Whatever is recomputed or packed: the choices go with the tokens.
train full method=none steps=1 data.choices="$place/other.safetensors" recompute=full
same "other/$weights" "full/$weights" "recomputed"
expect 0 "120 sequences" train run.yaml --record-choices packed.safetensors data.layout=packed batch.examples=0 steps=0 epochs=1
train packed method=none steps=0 epochs=1 data.layout=packed batch.examples=0 data.choices="$place/packed.safetensors" log.every=1
grep -q '"step":1,.*"agreement":1,' packed/metrics.jsonl
result $? "packed: the routers do not agree with their own choices"

# A run goes on to the same bytes; with another file it does not.
train whole data.choices="$place/other.safetensors"
cp -r whole part
rm -rf part/adapter part/checkpoints/step-00000020 part/checkpoints/step-00000030
train part data.choices="$place/other.safetensors"
same "whole/$weights" "part/$weights" "gone on from step 10"
rm -rf part/adapter part/checkpoints/step-00000030
expect 2 "data.choices was $place/other.safetensors when this run began" train run.yaml out="$place/part" optimizer.warmup=0 data.choices="$choices"
cp other.safetensors kept.safetensors
cp own.safetensors other.safetensors
expect 2 "other.safetensors" train run.yaml out="$place/part" optimizer.warmup=0 data.choices="$place/other.safetensors"
cp kept.safetensors other.safetensors

# Held-out rows are not in the file: the routers choose there.
expect 0 "108 sequences" train run.yaml --record-choices split.safetensors evaluation.split=0.1
train split steps=2 evaluation.split=0.1 data.choices="$place/split.safetensors"

expect 0 "has the experts of 120 sequences, 2486 tokens, in 2 MoE layers, 2 of 6 each" train run.yaml steps=1 out="$place/told" data.choices="$choices"
expect 2 "has no choices for a sequence of 16 tokens whose ids begin 420," train run.yaml out="$place/short" data.max_length=16 data.choices="$choices"
expect 1 "data.choices: " train run.yaml out="$place/none" data.choices="$place/nothing"
expect 2 "a bias that moves would choose none" train run.yaml method=loss-free data.choices="$choices" --dry-run
expect 2 "so leave out data.choices" train run.yaml data.choices="$choices" --record-choices x.safetensors
expect 2 "--record-choices means nothing with --dry-run" train run.yaml --dry-run --record-choices x.safetensors
sed 's/"vocab_size": [0-9]*/"vocab_size": 440/' "$here/model/golden/phimoe/config.json" >mixer.json
"$metier" init --config mixer.json --dtype f32 --out mixer >/dev/null 2>&1
cp model/tokenizer.json mixer
expect 2 "the model routes by SparseMixer" train run.yaml model=mixer out="$place/mixer-run" data.choices="$choices"

# forward: the experts of a file instead of the routers' choice.
expect 2 "has no choices for a sequence of 3 tokens whose ids begin 420, 3, 4:" forward model --ids 420,3,4 --choices "$choices"

printf '%d passed, %d failed\n' "$passed" "$failed"
[ $failed -eq 0 ]
