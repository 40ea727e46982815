#!/bin/bash
# metier prune from outside: what it writes, prints and refuses; that its folders are like any other. Usage: prune.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

"$here/support/train-bench" "$metier" "$place" || exit 1
model=$place/model
data=$place/data.jsonl

# nothing NAME: no folder, and no rest of one.
nothing() {
    ! ls -d "$place/$1" "$place/$1".* >"$place/left" 2>/dev/null && [ ! -s "$place/left" ]
    result $? "something is left at $1: $(cat "$place/left")"
}

# ---------------------------------------------------------------- every architecture

for name in deepseek deepseek_v2 deepseek_v3 mixtral phimoe olmoe qwen3_moe glm4_moe_lite qwen2_moe glm4_moe dots1 ernie4_5_moe; do
    "$here/support/any-model" "$metier" $name "$place/$name" || exit 1
    expect 0 "4 of 8 experts in each of" prune "$place/$name" --keep 50% --data "$data" --out "$place/$name-half" --verify
    grep -q '^verified .*256 tokens' "$place/text" && grep -q '^tokens/s .* before, .* after' "$place/text" &&
        grep -q '^they serve [0-9.]* % of the slots of [0-9]* tokens' "$place/text"
    result $? "$name: $(cat "$place/text")"
    grep -qE '(n_routed|num_local|num)_experts": 4' "$place/$name-half/config.json"
    result $? "$name: config.json"
    rm -r "${place:?}/$name" "$place/$name-half"
done

# ---------------------------------------------------------------- what it writes

for score in use mean reap easy-ep; do
    expect 0 "the best by $score" prune "$model" --keep 3 --data "$data" --score $score --out "$place/by-$score" --tokens 500
done
# The file of a folder chooses the same experts again; so does one that analyze writes, and eval masks by it.
expect 0 "3 of 6 experts in each of 2 layers" prune "$model" --experts "$place/by-reap/experts.json" --out "$place/again"
same by-reap/model.safetensors again/model.safetensors
expect 0 "" analyze --model "$model" --data "$data" --tokens 500 --select-experts best --score reap --keep 3 \
    --out "$place/half.json" --sample 50
expect 0 "" prune "$model" --keep 50% --experts "$place/half.json" --out "$place/third" --speed 0
! grep -q 'tokens/s' "$place/text"
result $? "--speed 0 measures: $(cat "$place/text")"
same by-reap/model.safetensors third/model.safetensors
# Experts that stay and served nothing of the data: as many in each layer as analyze sees without a load. Where there are none, no word.
head -n 1 "$data" >"$place/one.jsonl"
expect 0 "" analyze --model "$model" --data "$place/one.jsonl" --out "$place/loads" --sample 1
expect 0 "unused       2 experts that stay served no token of the data, in layers 0-1" prune "$model" --keep 6 \
    --data "$place/one.jsonl" --out "$place/idle"
python3 - "$place" <<'END'
import json, sys
place = sys.argv[1]
zeros = {str(layer["layer"]): layer["load"].count(0)
         for layer in json.load(open(place + "/loads/analysis.json"))["overall"]["layers"]}
assert json.load(open(place + "/idle/experts.json"))["unused"] == zeros == {"0": 1, "1": 1}, zeros
END
result $? "experts without a token: $(cat "$place/text")"
expect 0 "of the slots" prune "$model" --keep 6 --data "$data" --out "$place/busy"
! grep -q '^unused' "$place/text" && grep -q '"unused": {},' "$place/busy/experts.json" && ! grep -q unused "$place/again/experts.json"
result $? "no expert is without a token: $(cat "$place/text")"
# A folder that was pruned can be again, and by all of its experts is itself.
expect 0 "2 of 3 experts" prune "$place/again" --keep 67% --data "$data" --out "$place/less" --verify
expect 0 "6 of 6 experts" prune "$model" --keep 100% --data "$data" --out "$place/all"
same model/config.json all/config.json

# ---------------------------------------------------------------- like any other folder

half=$place/by-reap
expect 0 "" train "$place/run.yaml" "model=$half" "out=$place/trained" steps=4 --quiet
expect 0 "" merge "$half" --adapter "$place/trained/adapter" --out "$place/merged" --verify
same by-reap/experts.json merged/experts.json
expect 0 "" analyze --model "$place/merged" --data "$data" --tokens 500 --out "$place/analysis" --sample 50
expect 0 "" train "$place/run.yaml" "model=$half" "out=$place/whole" train=full steps=2 --quiet
expect 0 "" generate "$half" --prompt '3 plus 3 is' --max-new 2
mkdir -p "$place/questions/glue/CoLA"
printf 's1\t1\t\tThe dogs bark.\ns1\t0\t\tThe dogs bark bark.\n' >"$place/questions/glue/CoLA/dev.tsv"
expect 0 "" eval glue_cola --data "$place/questions" --model "$half" --out "$place/asked"

# With an adapter: as if it had been merged first.
expect 0 "" train "$place/run.yaml" "out=$place/first" steps=4 --quiet
expect 0 "" merge "$model" --adapter "$place/first/adapter" --out "$place/first-merged"
expect 0 "verified " prune "$model" --experts "$place/half.json" --adapter "$place/first/adapter" --out "$place/one" --verify
expect 0 "" prune "$place/first-merged" --experts "$place/half.json" --out "$place/two"
same one/model.safetensors two/model.safetensors
expect 0 "they serve" prune "$model" --keep 3 --data "$data" --adapter "$place/first/adapter" --out "$place/three"
expect 0 "they serve" prune "$place/first-merged" --keep 3 --data "$data" --out "$place/four"
same three/experts.json four/experts.json

# ---------------------------------------------------------------- what it refuses

out="--out $place/no"
# shellcheck disable=SC2086
{
    expect 2 "a model folder is missing" prune --keep 3 --data "$data" $out
    expect 2 "give --data FILE or --experts FILE" prune "$model" --keep 3 $out
    expect 2 "give either --data or --experts, not both" prune "$model" --keep 3 --data "$data" --experts "$place/half.json" $out
    expect 2 "--out DIR is missing" prune "$model" --keep 3 --data "$data"
    expect 2 "--keep is missing" prune "$model" --data "$data" $out
    expect 2 "--score means nothing with --experts" prune "$model" --experts "$place/half.json" --score use $out
    expect 2 "use, mean, reap or easy-ep" prune "$model" --keep 3 --data "$data" --score best $out
    for keep in 1 0 0% 4% 7 101% -3 3.5 half 50%% ''; do
        expect 2 "--keep" prune "$model" --keep "$keep" --data "$data" $out
    done
    expect 2 "keeps 3 experts of each layer, --keep says 4" prune "$model" --keep 4 --experts "$place/half.json" $out
    expect 2 "exists and is not empty" prune "$model" --keep 3 --data "$data" --out "$place/again"
    expect 2 "exists and is not a folder" prune "$model" --keep 3 --data "$data" --out "$place/half.json"
    expect 1 "nowhere" prune "$place/nowhere" --keep 3 --data "$data" $out
    expect 1 "--select-experts best --keep K --out '$place/nowhere.json'" prune "$model" --experts "$place/nowhere.json" $out
    expect 1 "experts: $place/model: " prune "$model" --experts "$model" $out
    ! grep -q 'makes the file' "$place/text"
    result $? "--experts FOLDER: $(cat "$place/text")"
    expect 1 "nowhere.jsonl" prune "$model" --keep 3 --data "$place/nowhere.jsonl" $out
    : >"$place/empty.jsonl"
    expect 2 "empty.jsonl" prune "$model" --keep 3 --data "$place/empty.jsonl" $out
    # What reads the data is training's; the words are not.
    expect 2 "has an answer within --length" prune "$model" --keep 3 --data "$data" --length 2 $out
    printf '{"problem": "1", "solution": "2"}\n' >"$place/columns.jsonl"
    expect 2 "text); rename its columns for --data" prune "$model" --keep 3 --data "$place/columns.jsonl" $out
    # Before anything is written or computed.
    expect 2 "device 'gpuu'" prune "$model" --experts "$place/half.json" --device gpuu --speed 8 $out
    expect 2 "device 'gpuu'" prune "$model" --experts "$place/half.json" --device gpuu --speed 0 --verify $out
    expect 2 "does not name a folder" prune "$model" --keep 3 --data "$data" --out ''
    expect 1 "Not a directory" prune "$model" --keep 3 --data "$data" --out "$data/x"
    ! grep -q 'device:' "$place/text"
    result $? "--out FILE/x: $(cat "$place/text")"
    # A file of experts, an adapter of another model.
    "$here/support/any-model" "$metier" qwen3_moe "$place/other" || exit 1
    expect 2 "half.json" prune "$place/other" --experts "$place/half.json" $out
    expect 2 "" prune "$place/other" --keep 4 --data "$data" --adapter "$place/first/adapter" $out
    expect 2 "" prune "$place/by-reap" --keep 2 --data "$data" --adapter "$place/first/adapter" $out
    # Other numbers in other layers; too few in one.
    printf '{"experts": 6, "layers": 2, "keep": {"0": [0, 1, 2], "1": [3, 4]}}' >"$place/uneven.json"
    expect 2 "layer 0 keeps 3 experts and layer 1 2" prune "$model" --experts "$place/uneven.json" $out
    printf '{"experts": 6, "layers": 2, "keep": {"0": [0, 1, 2]}}' >"$place/none.json"
    expect 2 "none.json" prune "$model" --experts "$place/none.json" $out
    # Groups that limit a token's choice.
    "$here/support/any-model" "$metier" deepseek_v3 "$place/grouped" || exit 1
    expect 2 "not possible with n_group 2: every group keeps equally many. 4 or 6 would do" prune "$place/grouped" --keep 5 \
        --data "$data" $out
    expect 2 "equally many. 4 would do" prune "$place/grouped" --keep 3 --data "$data" $out
    expect 2 "judges a group by its best two" prune "$place/grouped" --keep 2 --data "$data" $out
    printf '{"experts": 8, "layers": 2, "keep": {"1": [0, 1, 2, 7], "2": [0, 1, 6, 7]}}' >"$place/groups.json"
    expect 2 "layer 1 keeps 3 experts of group 0" prune "$place/grouped" --experts "$place/groups.json" $out
    # A model without experts.
    mkdir "$place/dense"
    printf '{"model_type": "llama", "hidden_size": 8}' >"$place/dense/config.json"
    expect 2 "model_type" prune "$place/dense" --keep 3 --data "$data" $out
    sed 's/"num_experts": 6/"num_experts": 6, "mlp_only_layers": [0, 1]/' "$place/config.json" >"$place/dense/config.json"
    expect 2 "no layer has experts" prune "$place/dense" --keep 3 --data "$data" $out
}
# What fails afterwards leaves the folder, and says so: logits that are no numbers.
cp -r "$model" "$place/broken"
head -c 256 /dev/zero | tr '\0' '\377' |
    dd of="$place/broken/model.safetensors" bs=1 conv=notrunc seek=$(($(wc -c <"$model/model.safetensors") - 256)) 2>/dev/null
expect 1 "written/broken was written, but could not be verified" prune "$place/broken" --experts "$place/half.json" \
    --out "$place/written/broken" --speed 0 --verify
[ -e "$place/written/broken/config.json" ]
result $? "a folder that is not verified is not there"
# A disk that is full: files may not become longer than that.
(
    trap '' XFSZ
    ulimit -f 32
    "$metier" prune "$model" --experts "$place/half.json" --out "$place/no/new" --speed 0 >"$place/text" 2>&1
)
[ $? -eq 1 ] && grep -q 'cannot write' "$place/text"
result $? "a full disk: $(cat "$place/text")"
rmdir "$place/no"
nothing no

# Killed at any moment there is nothing, or all of it; what is left has a name nobody reads.
for pause in 0 0.01 0.02 0.04 0.08; do
    "$metier" prune "$model" --experts "$place/half.json" --out "$place/killed/half" --speed 0 >/dev/null 2>&1 &
    process=$!
    sleep $pause
    kill -KILL $process 2>/dev/null
    wait $process 2>/dev/null
    if [ -e "$place/killed/half" ]; then
        diff -r "$place/third" "$place/killed/half" >/dev/null
        result $? "killed after $pause s: the folder is not whole"
    fi
    rm -rf "$place/killed"
done
# What such a one left goes with the next; what a living process writes stays.
sleep 0 & dead=$!
wait $dead
mkdir -p "$place/swept/half.tmp.$dead.0" "$place/swept/half.tmp.$$.0"
: >"$place/swept/half.tmp.$dead.0/model.safetensors"
expect 0 "" prune "$model" --experts "$place/half.json" --out "$place/swept/half/" --speed 0
[ ! -e "$place/swept/half.tmp.$dead.0" ] && [ -d "$place/swept/half.tmp.$$.0" ] && [ -d "$place/swept/half" ]
result $? "leftovers: $(ls "$place/swept")"

expect 0 "metier prune DIR" prune --help
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
