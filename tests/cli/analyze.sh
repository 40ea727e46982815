#!/bin/bash
# metier analyze from outside: what it writes, prints and refuses. Usage: analyze.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

# holds NAME PYTHON: an expression about the analysis.json of folder NAME.
holds() {
    python3 -c 'import json, math, sys
d = json.load(open(sys.argv[1]))
first = d["overall"]["layers"][0]
sys.exit(0 if eval(sys.argv[2]) else 1)' "$place/$1/analysis.json" "$2"
    result $? "$1: not $2"
}

"$here/support/train-bench" "$metier" "$place" || exit 1
"$metier" train "$place/run.yaml" --quiet steps=4 >/dev/null 2>&1 || exit 1
for i in 1 2 3 4 5 6 7 8 9; do
    printf 'Some words of another kind, number %d, and what they say.\nA second line.\n\n' $i
done >"$place/words.txt"
model=$place/model
data="--data $place/data.jsonl=sums --data $place/words.txt --sample 120 --tokens 1000"

expect 0 "metier analyze --model DIR" analyze --help
expect 2 "--model DIR is missing" analyze
expect 2 "--layers means nothing with --json" analyze --model "$model" --data "$place/words.txt" --json --layers
expect 2 "--data FILE is missing" analyze --model "$model" --out "$place/o"
expect 2 "--out DIR is missing" analyze --model "$model" --data "$place/words.txt"
expect 2 "expected FILE or FILE=DOMAIN" analyze --model "$model" --data "$place/words.txt=" --out "$place/o"
expect 2 "the template 'none' is only for questions" analyze --model "$model" --data "$place/words.txt" --out "$place/o" --template none
expect 2 "the template 'none' is only for questions" train "$place/run.yaml" data.template=none "out=$place/o" --dry-run
expect 2 "--length is 1, expected 2" analyze --model "$model" --data "$place/words.txt" --out "$place/o" --length 1
expect 1 "nothing.jsonl" analyze --model "$model" --data "$place/nothing.jsonl" --out "$place/o"
expect 1 "$place/nothing: cannot open" analyze --model "$place/nothing" --data "$place/words.txt" --out "$place/o"

# shellcheck disable=SC2086
expect 0 "all together" analyze --model "$model" $data --out "$place/plain" --length 64
holds plain 'd["format"] == "metier-analysis-1" and d["domains"] == ["sums", "words"] and d["drift"] is None'
holds plain 'sum(first["load"]) == first["tokens"] * d["slots"] and len(first["load"]) == d["experts"]'
holds plain 'first["tokens"] == sum(x["layers"][0]["tokens"] for x in d["by_domain"].values())'
holds plain 'abs((max(first["load"]) / (sum(first["load"]) / d["experts"]) - 1) - first["maxvio"]) < 1e-12'
holds plain 'all(0 <= first[x] <= 1 for x in ("overlap_in", "overlap_out", "overlap_out_unit", "abs_cos", "gini"))'
holds plain 'set(d["formulas"]) == set(d["overall"]["mean"]) and set(d["formulas"]) <= set(first)'
holds plain 'all(abs(sum(row) - 1) < 1e-12 for layer in d["affinity"] for row in layer["share"])'
holds plain 'all(1 <= f["effective_experts"] <= d["slots"] and 1 <= f["effective_scores"] <= d["experts"] for f in d["overall"]["layers"])'
for name in effective_experts effective_scores; do
    holds plain "abs(sum(1 / f['$name'] for f in d['overall']['layers']) * d['overall']['mean']['$name'] - len(d['layers'])) < 1e-9"
done
holds plain 'any(abs(first["experts_90"] * d["experts"] - i) < 1e-9 and sum(sorted(first["load"])[-i:]) >= 0.9 * sum(first["load"]) > sum(sorted(first["load"])[1 - i:] if i > 1 else []) for i in range(1, d["experts"] + 1))'
holds plain 'all(0 <= a["jaccard_90"] <= 1 and 0 < a["together_90"] <= 1 for a in d["affinity"])'
holds plain 'len(d["pca"]) == len(d["layers"]) and d["pca"][0]["residual"] < 1e-8'

# Sequences are whole: what was analysed is never more than all of it, and at the end it is all.
counts=$(sed -n 's/^analysing: \([0-9]*\)\/\([0-9]*\) (100%).*/\1 \2/p' "$place/text")
[ -n "$counts" ] && [ "${counts% *}" -eq "${counts#* }" ] && [ "${counts% *}" -gt 1000 ]
result $? "analysing: '$counts' of the expected tokens"

# The adapter moved something; a model is its own base without any drift.
# shellcheck disable=SC2086
expect 0 "drift from the base" analyze --model "$model" --adapter "$place/run/adapter" $data --out "$place/moved" --layers
holds moved 'd["drift"]["overall"]["mean"]["router_change"] > 0 and d["base"] == d["model"]'
holds moved '0 <= d["drift"]["by_domain"]["sums"]["mean"]["sets_changed"] <= 1'
# shellcheck disable=SC2086
expect 0 "layer 1" analyze --model "$model" --base "$model" $data --out "$place/same" --layers
holds same 'all(v == 0 for v in d["drift"]["overall"]["mean"].values())'

# A model beside itself, read otherwise: as many tokens and slots keep their experts as two runs of forward say.
printf 'Some words of another kind, number 7, and what they say of it all, and more of them.\n' >"$place/one.txt"
expect 0 "same experts %" analyze --model "$model" --quantize nf4 --against none --data "$place/one.txt" --out "$place/nf4" --layers
ids=420,$("$metier" tokenize "$model" --file "$place/one.txt" 2>/dev/null | sed '$d' | tr '\n' ',')421
for how in none nf4; do
    "$metier" forward "$model" --ids "$ids" --quantize $how --out "$place/$how.st" >/dev/null 2>&1 || fail "forward $how"
done
python3 - "$place" <<'END'
import json, struct, sys
place = sys.argv[1]
def experts(name):
    data = open(f"{place}/{name}.st", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    found = []
    for layer in (0, 1):
        tensor = header[f"experts.{layer}"]
        begin, end = tensor["data_offsets"]
        tokens, slots = tensor["shape"]
        numbers = struct.unpack(f"<{tokens * slots}{'i' if tensor['dtype'] == 'I32' else 'q'}", data[8 + size + begin:8 + size + end])
        found.append([set(numbers[i * slots:(i + 1) * slots]) for i in range(tokens)])
    return found
drift = json.load(open(f"{place}/nf4/analysis.json"))["drift"]["overall"]["layers"]
for layer, (now, then) in enumerate(zip(experts("nf4"), experts("none"))):
    sets = sum(a != b for a, b in zip(now, then)) / len(now)
    slots = sum(len(a - b) for a, b in zip(now, then)) / (2 * len(now))
    assert drift[layer]["tokens"] == len(now) and abs(drift[layer]["sets_changed"] - sets) < 1e-12, (drift[layer], sets)
    assert abs(drift[layer]["slots_changed"] - slots) < 1e-12, (drift[layer], slots)
assert drift[1]["sets_changed"] > 0, "nf4 changes nothing: the case shows nothing"
END
result $? "routing beside weights as stored: not as forward says"
holds nf4 'd["quantize"] == "nf4,routed_experts" and d["against"] == "none" and d["drift"]["overall"]["mean"]["router_change"] == 0'
# shellcheck disable=SC2086
expect 0 "both ways" analyze --model "$model" --adapter "$place/run/adapter" --against none $data --out "$place/itself"
holds itself 'all(v == 0 for v in d["drift"]["overall"]["mean"].values())'
expect 2 "--base means nothing with --against" analyze --model "$model" --against none --base "$model" --data "$place/one.txt" --out "$place/o"
expect 2 "'q4' is not a format" analyze --model "$model" --against q4 --data "$place/one.txt" --out "$place/o"

# The same numbers whatever the threads; a sample states its error; tokens are a limit.
# shellcheck disable=SC2086
"$metier" analyze --model "$model" $data --json --threads 1 >"$place/one.json" 2>/dev/null
# shellcheck disable=SC2086
"$metier" analyze --model "$model" $data --json --threads 2 >"$place/two.json" 2>/dev/null
[ -s "$place/one.json" ] && cmp -s "$place/one.json" "$place/two.json"
result $? "one thread and two differ"
# shellcheck disable=SC2086
expect 0 "written" analyze --model "$model" $data --out "$place/few" --queries 20 --tokens 300 --length 32
holds few '300 <= d["by_domain"]["sums"]["layers"][0]["tokens"] < 332'
holds few 'first["queries_in"] == 20 and first["overlap_in_error"] > 0 and first["points_in"] == 120'

# The best experts by every score: as many in each layer, none that is left is better, of equals the lower number.
# shellcheck disable=SC2086
for score in use mean reap easy-ep; do
    expect 0 "written: $place/$score.json: 3 of 6 experts a layer, the best by $score; they serve" analyze --model "$model" \
        $data --select-experts best --score $score --keep 50% --out "$place/$score.json"
    "$metier" analyze --model "$model" $data --select-experts best --score $score --keep 3 --out "$place/again.json" --json \
        >"$place/seen.json" 2>/dev/null
    same "$score.json" again.json "50 % and 3"
    python3 - "$place/$score.json" "$place/seen.json" $score <<'END'
import json, sys
made, seen, score = json.load(open(sys.argv[1])), json.load(open(sys.argv[2])), sys.argv[3]
assert (made["experts"], made["layers"], made["score"]) == (6, 2, score) and len(made["data"]) == 2
served = 0
for layer in seen["overall"]["layers"]:
    worth = layer[{"use": "load", "mean": "mean_score"}.get(score, score)]
    best = sorted(range(6), key=lambda j: (-worth[j], j))[:3]
    assert made["keep"][str(layer["layer"])] == sorted(best), (worth, made)
    served += sum(layer["load"][j] for j in best) / sum(layer["load"]) / 2
assert abs(made["share"] - served) < 1e-12 and 0 < served < 1
END
    result $? "best by $score: not these"
done
best="analyze --model $model --data $place/words.txt --select-experts best --out $place/no.json"
# shellcheck disable=SC2086 # words
while read -r sentence; do
    case $sentence in
    *" | "*) expect 2 "${sentence#* | }" $best ${sentence%% | *} ;;
    esac
done <<'END'
--score reap | --keep is missing
--keep 1 | --keep 1 keeps 1 of 6 experts a layer, expected 2 (a token's experts) to 6
--keep 7 | --keep 7 keeps 7 of 6 experts a layer
--keep 10% | --keep 10% keeps 1 of 6 experts a layer
--keep 0% | --keep 0% keeps 0 of 6
--keep half | --keep is 'half', expected a number of experts or a percentage (16 or 50%)
--keep 3 --score size | --score is 'size', expected use, mean, reap or easy-ep
--keep 3 --threshold 0.5 | --threshold means nothing with --select-experts best
END
expect 2 "--keep means nothing without --select-experts best" analyze --model "$model" --data "$place/words.txt" --out "$place/o" --keep 3
[ ! -e "$place/no.json" ]
result $? "what is refused writes a file"

# Misses of caches: as a plain replay of what forward chose says; with room for all, first uses alone.
expect 0 "2: all together" analyze --model "$model" --data "$place/one.txt" --out "$place/cache" --cache 2,4,6 --layers
python3 - "$place" <<'END'
import json, struct, sys
place = sys.argv[1]
data = open(f"{place}/none.st", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
caches = json.load(open(f"{place}/cache/analysis.json"))["cache"]
assert [c["experts"] for c in caches["overall"]] == [2, 4, 6] and caches["by_domain"]["one"] == caches["overall"]
for cache in caches["overall"]:
    for layer in cache["layers"]:
        tensor = header[f"experts.{layer['layer']}"]
        begin, end = tensor["data_offsets"]
        tokens, slots = tensor["shape"]
        numbers = struct.unpack(f"<{tokens * slots}{'i' if tensor['dtype'] == 'I32' else 'q'}", data[8 + size + begin:8 + size + end])
        order, misses = [], 0 # least recently used first
        for i in range(tokens):
            token = numbers[i * slots:(i + 1) * slots]
            misses += sum(j not in order for j in token)
            order = [j for j in order if j not in token][len(token) - cache["experts"]:] if cache["experts"] > slots else []
            order += sorted(token) # of equals the lower number goes
        assert layer["tokens"] == tokens and abs(layer["LRU"] - misses / tokens) < 1e-12, (layer, misses / tokens)
        assert layer["first"] <= layer["Belady"] <= min(layer["LRU"], layer["LFU"])
        assert cache["experts"] < 6 or layer["first"] == layer["LRU"] == layer["LFU"] == layer["Belady"] > 0
END
result $? "misses of caches are not those of a replay"
while read -r sizes sentence; do
    expect 2 "$sentence" analyze --model "$model" --data "$place/one.txt" --out "$place/o" --cache "$sizes"
done <<'END'
1 --cache: room for 1 experts, expected 2 (a token's experts) to 6
3,7 --cache: room for 7 experts
0 --cache: room for 0 experts
99999999999999999999 --cache: room for
3, --cache is '3,', expected numbers of experts, as in 8,16
,3 --cache is ',3'
-3 --cache is '-3'
3;4 --cache is '3;4'
many --cache is 'many'
2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2 --cache lists more than 16 sizes
END

# eval --prune: the experts that the file does not list serve nobody, and a file of another model is refused.
samples=$here/../share/samples
expect 0 "written" eval glue_cola --data "$samples" --model "$model" --prune "$place/reap.json" --out "$place/pruned" --threads 1
python3 - "$place/pruned/routing_glue_cola.json" "$place/reap.json" <<'END'
import json, sys
figures, keep = json.load(open(sys.argv[1]))["figures"], json.load(open(sys.argv[2]))["keep"]
for layer in figures["layers"]:
    serve = {j for j in range(6) if layer["load"][j] > 0}
    assert serve and serve <= set(keep[str(layer["layer"])]), (serve, keep)
END
result $? "eval --prune: others than the kept serve"
sed 's/"experts": 6/"experts": 8/' "$place/reap.json" >"$place/eight.json"
expect 2 "is for another model: one with 8 experts in each of 2 layers; this one has 6 in each of 2" \
    eval glue_cola --data "$samples" --model "$model" --prune "$place/eight.json" --out "$place/o" --threads 1
printf '{"0": [1, 2]}' >"$place/plain.json"
expect 2 "it is not a file of experts, or one of an earlier version" \
    eval glue_cola --data "$samples" --model "$model" --prune "$place/plain.json" --out "$place/p" --threads 1
expect 2 "it is not a file of experts, or one of an earlier version" train "$place/run.yaml" "experts=$place/plain.json" "out=$place/o" --dry-run

# Weights that are not finite: whatever is written is JSON.
cp -r "$model" "$place/diverged" && "$here/support/poison-model" "$place/diverged" || fail "poison-model"
# shellcheck disable=SC2086
"$metier" analyze --model "$place/diverged" $data --out "$place/undefined" >"$place/text" 2>&1
if [ $? -ge 2 ]; then cat "$place/text"; fail "analyze of weights that are not finite"; fi
for file in "$place/undefined"/*.json; do
    [ -e "$file" ] || continue
    python3 -c 'import json, sys
def refuse(name): raise ValueError(name)
json.load(open(sys.argv[1]), parse_constant=refuse)' "$file" || fail "$file is no JSON"
done

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
