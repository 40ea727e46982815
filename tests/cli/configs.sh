#!/bin/bash
# Every config of share/configs starts as it stands: in a folder that has what it names, as small models and data, the
# commands its comments give are run, and training gets as far as its dry run. Usage: configs.sh METIER
set -u
metier=$(realpath "$1")
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"
ln -s "$here/../share" "$place/share"
cd "$place" || exit 1
mkdir -p build/study2/rows models data build/tiny build/base/texts build/base/train-20000 build/base/train-200000

# What the configs take for granted: rows of instructions, plain text, the problems of scripts/make-base.
awk 'BEGIN { for (i = 0; i < 200; i++)
    printf "{\"instruction\": \"Add %d and %d.\", \"input\": \"\", \"output\": \"%d\"}\n", i, i % 7, i + i % 7 }' >data/train.jsonl
awk 'BEGIN { for (i = 0; i < 40000; i++) printf "Line %d of a long text.\n%s", i, i % 9 ? "" : "\n" }' >data/corpus.txt
for domain in language reasoning science math code; do
    "$metier" synth --domain $domain --count 300 --out build/base/train-20000/$domain.jsonl >/dev/null 2>&1
    cp build/base/train-20000/$domain.jsonl build/base/train-200000/
    cp build/base/train-20000/$domain.jsonl build/study2/rows/
done
cp build/base/train-20000/math.jsonl build/base/valid.jsonl
for text in $(sed -n 's/.*texts\/\([a-z0-9]*\)\.jsonl.*/\1/p' share/configs/base-*.yaml | sort -u); do
    awk 'BEGIN { for (i = 0; i < 200; i++) printf "{\"text\": \"Line %d of a text.\"}\n", i }' >build/base/texts/$text.jsonl
done
cp -r share/samples/. data # a few questions of each benchmark

# architecture CONFIG: of the model that a config is for.
architecture() {
    case $1 in
    deepseek-moe-16b) echo deepseek ;;
    deepseek-v2-lite | esft | base-*-deepseek-v2 | study2-base) echo deepseek_v2 ;;
    moonlight-16b-a3b) echo deepseek_v3 ;;
    mixtral-8x7b | base-*-mixtral) echo mixtral ;;
    phi-3.5-moe) echo phimoe ;;
    gpt-oss-20b) echo gpt_oss ;;
    glm-4.5-air) echo glm4_moe ;;
    ernie-4.5-21b-a3b) echo ernie4_5_moe ;;
    dots.llm1) echo dots1 ;;
    pretrain-tiny) echo olmoe ;;
    base-*-qwen3-moe) echo qwen3_moe ;;
    finetune-tiny | compare-*) echo shipped ;; # its model is in the tree
    esac
}

# try WORDS...: a command of a comment, made small; $place/text has what it says.
try() {
    set -f
    case $2 in
    train) set -- "$@" --dry-run ;;
    compare)
        # Its rows and model are a user's own.
        case $3 in *table1*)
            shift
            expect 0 "" "$@" "models=[$(cd share/models/tiny-deepseek-v2 && pwd)]" \
                "domains=[{name: math, train: build/base/train-20000/math.jsonl}]" training.data.template=plain evaluation.skip_missing=true
            set +f
            return
            ;;
        esac
        # Its bases are made on a GPU.
        case $3 in *study*)
            set -- "$@" device=cpu "models=[$(cd share/models/tiny-deepseek-v2 && pwd)]" "domains=[math]" "prune=[2]" "evaluate_at=[1]"
            ;;
        esac
        case $3 in *benchmarks*) set -- "$@" "methods=[aux, paper]" evaluation.limit=6 evaluation.max_tokens=4 ;; esac
        set -- "$@" "seeds=[1]" problems.train=40 problems.test=10 training.steps=1 training.batch.examples=4 --quiet
        ;;
    esac
    set +f
    shift
    expect 0 "" "$@"
}

count=0
for path in share/configs/*.yaml; do
    name=$(basename "$path" .yaml)
    kind=$(architecture "$name")
    model=$(sed -n 's/^model: *\([^ ]*\).*/\1/p' "$path")
    count=$((count + 1))
    if [ -z "$kind" ]; then
        fail "$name: tests/cli/configs.sh does not know which model it is for"
        continue
    fi
    if [ "$kind" != shipped ] && [ ! -e "$model" ]; then
        "$here/support/any-model" "$metier" "$kind" "$model" || exit 1
    fi
    while read -r line; do
        # shellcheck disable=SC2086 # words
        try $line
    done < <(sed -n 's/^#   \(metier .*\)/\1/p' "$path")
    case $name in
    compare-*)
        grep -q "trained on" "$place/text"
        result $? "$name: no command of its comments got to the end"
        ;;
    *) expect 0 "trainable" train "$path" --dry-run ;;
    esac
done
for recipe in $(sed -n 's/.*recipe: \([a-z0-9_]*\),.*/\1/p' share/configs/compare-table1.yaml); do
    [ -f "share/recipes/$recipe.yaml" ]
    result $? "compare-table1: there is no recipe $recipe"
done
[ $count -ge 23 ]
result $? "only $count configs"

# Without the file ESFT needs, how to make it is said; with it, the chosen experts learn, and they alone.
mv data/experts.json aside.json
expect 1 "metier analyze --model MODEL --data DATA --select-experts token --out 'data/experts.json' makes the file" train share/configs/esft.yaml --dry-run
mv aside.json data/experts.json
expect 0 "as trained, 2 steps" train share/configs/esft.yaml steps=2 optimizer.warmup=0 optimizer.lr=1e-2 batch.examples=4 --quiet
python3 - models/DeepSeek-V2-Lite runs/esft/model data/experts.json <<'END'
import json, re, struct, sys

def tensors(folder):
    data = open(folder + "/model.safetensors", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {name: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
            for name, t in head.items() if name != "__metadata__"}

before, after = tensors(sys.argv[1]), tensors(sys.argv[2])
chosen = {(int(layer), expert) for layer, experts in json.load(open(sys.argv[3]))["keep"].items() for expert in experts}
moved = set()
for name in before:
    found = re.match(r"model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.", name)
    if before[name] != after[name]:
        moved.add((int(found.group(1)), int(found.group(2))) if found else name)
sys.exit(0 if moved == chosen and len(chosen) > 0 else "moved %s, chosen %s" % (moved, chosen))
END
result $? "other tensors than the chosen experts moved"

# The highest experts by each rule's score, until they reach the threshold.
analyze="--model models/DeepSeek-V2-Lite --data data/train.jsonl --sample 40 --queries 10"
# shellcheck disable=SC2086 # words
expect 0 "written: seen/analysis.json" analyze $analyze --out seen
while read -r rule score threshold; do
    asked=${threshold#usual-}
    # shellcheck disable=SC2046,SC2086 # words
    expect 0 "written: made/$rule.json" analyze $analyze --select-experts $rule --out made/$rule.json \
        $([ "$asked" != "$threshold" ] || echo --threshold $threshold)
    python3 - made/$rule.json seen/analysis.json $score $asked <<'END'
import json, sys
written, seen, score, threshold = json.load(open(sys.argv[1])), json.load(open(sys.argv[2])), sys.argv[3], float(sys.argv[4])
chosen = written["keep"]
assert sorted(map(int, chosen)) == seen["layers"]
assert (written["experts"], written["layers"]) == (seen["experts"], len(seen["layers"]))
assert written["score"] and written["data"] == ["data/train.jsonl"]
served = [sum(layer["load"][j] for j in chosen[str(layer["layer"])]) / sum(layer["load"]) for layer in seen["overall"]["layers"]]
assert abs(written["share"] - sum(served) / len(served)) < 1e-12
for number, layer in zip(seen["layers"], seen["overall"]["layers"]):
    scores, taken = layer["load" if score == "count" else score], chosen[str(number)]
    each = [1] * len(scores) if score == "count" else scores
    least = min(taken, key=lambda j: scores[j])
    reached, wanted = sum(each[j] for j in taken), threshold * sum(each)
    assert reached >= wanted * (1 - 1e-6) and (len(taken) == 1 or reached - each[least] < wanted), (number, taken, scores)
    assert all(scores[j] <= scores[least] for j in range(len(scores)) if j not in taken)
END
    result $? "$rule $threshold: not the highest, or not as few as can be"
done <<'END'
token load 0.05
token load 0.5
token load 1
token load usual-0.2
gate mean_weight 0.5
gate mean_weight usual-0.1
sieve count 0.6
sieve count usual-0.25
END
# shellcheck disable=SC2086 # words
expect 2 "--threshold is 0, expected more than 0 and at most 1" analyze $analyze --select-experts token --out x.json --threshold 0
# shellcheck disable=SC2086 # words
expect 2 "--select-experts is 'gates', expected gate, token, sieve or best" analyze $analyze --select-experts gates --out x.json
# shellcheck disable=SC2086 # words
expect 2 "--threshold means nothing without --select-experts" analyze $analyze --out seen --threshold 0.2

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
