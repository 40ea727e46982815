#!/bin/bash
# metier compare with fewer experts: the best by a score, fewer a token, none of the routed ones; and what is refused.
# Usage: compare_fewer.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

# number FILE PATTERN: the number behind a pattern, in the first line that has it.
number() { sed -n "s/.*$2\([-0-9.e]*\).*/\1/p" "$place/$1" | head -n 1; }
# loss FILE: of the held-out problems of math; asked FILE NAME: the same, asked so.
loss() { number "$1" '"loss": {.*"math": '; }
asked() { number "$1" "\"$2\": .*\"math\": {\"accuracy\": [^,]*, \"loss\": "; }

model=$here/../share/models/tiny-deepseek-v2
cat >"$place/compare.yaml" <<END
model: $model
out: $place/whole
methods: [none]
domains: [{name: all, of: [math, language, code]}]
problems: {train: 40, test: 20}
training: {steps: 1, batch.examples: 8, lora.rank: 2, data.max_length: 64}
threads: 1
END
echo '/* stands for Chart.js v3.0 */' >"$place/chart.js"
js="--chart-js $place/chart.js --quiet"
few="prune={keep: [100%, 50%, 6], score: [use, reap], by: [own, mix, other], rows: 30, mix_rows: 10}"

# Refused before anything is written.
expect 2 "prune has no key 'keeep'; did you mean 'keep'?" compare "$place/compare.yaml" "prune={keeep: 3}"
expect 2 "a method is called base, as tables call the model before training" compare "$place/compare.yaml" "methods=[none, {name: base, method: aux}]"
expect 2 "prune needs keep" compare "$place/compare.yaml" "prune={score: reap}"
expect 2 "prune.keep has '0%'" compare "$place/compare.yaml" "prune={keep: 0%}"
expect 2 "prune.keep has '-3'" compare "$place/compare.yaml" "prune={keep: [-3]}"
expect 2 "prune.keep has 8 twice" compare "$place/compare.yaml" "prune={keep: [8, 8]}"
expect 2 "prune.score" compare "$place/compare.yaml" "prune={keep: 8, score: luck}"
expect 2 "prune.by has 'all', expected own, mix or other" compare "$place/compare.yaml" "prune={keep: 8, by: all}"
expect 2 "prune.mix_rows means nothing without by: mix" compare "$place/compare.yaml" "prune={keep: 8, mix_rows: 3}"
expect 2 "prune is a list of numbers, or one map" compare "$place/compare.yaml" "prune=[2, {keep: 8}]"
expect 2 "by: mix, and there is one domain to train on" compare "$place/compare.yaml" "domains=[math]" "prune={keep: 8, by: mix}"
expect 2 "prune.keep" compare "$place/compare.yaml" "prune={keep: 1}"
expect 2 "prune.keep" compare "$place/compare.yaml" "prune={keep: 17}"
expect 2 "experts_per_token has 9, and a token of the model gets" compare "$place/compare.yaml" "experts_per_token=[9]"
expect 2 "experts_per_token" compare "$place/compare.yaml" "experts_per_token=[0]"
expect 2 "cache has 3, expected 4 (experts of a token) to 16" compare "$place/compare.yaml" "cache=[3]"
expect 2 "cache has 17, expected" compare "$place/compare.yaml" "cache=[17]"
expect 2 "experts_per_token has 2 twice" compare "$place/compare.yaml" "experts_per_token=[2, 2]"
mkdir "$place/phi"
cat >"$place/phi/config.json" <<END
{"model_type": "phimoe", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 440, "rms_norm_eps": 1e-05,
 "max_position_embeddings": 256, "rope_theta": 10000.0, "router_jitter_noise": 0.01, "input_jitter_noise": 0.0,
 "attention_bias": true, "lm_head_bias": true, "tie_word_embeddings": false}
END
expect 2 "SparseMixer routes every token to 2 experts" compare "$place/compare.yaml" model="$place/phi" "experts_per_token=[1]"
[ ! -e "$place/whole" ]
result $? "a comparison that was refused left a folder"

# shellcheck disable=SC2086
{
    expect 0 "$place/whole/report.html" compare "$place/compare.yaml" "$few" "experts_per_token=[4, 1]" silence=true "cache=[6, 16]" $js \
        --csv "$place/csv" --markdown "$place/page.md"
    base=whole/cells/base-all/cell.json
    # With all experts, or as many a token as the model has, nothing changes.
    own=$(loss $base)
    [ -n "$own" ] && [ "$(asked $base use_own_100%)" = "$own" ] && [ "$(asked $base 4)" = "$own" ] &&
        [ "$(number $base 'reap_mix_100%": .*"served": ')" = 1 ]
    result $? "all experts are not the model as it is: $own; $(grep -o '.*use_own_100%.\{120\}' "$place/$base")"
    # The mix keeps the same experts for every domain, the domains each their own.
    [ "$(number $base 'use_mix_6": .*"jaccard": ')" = 1 ] && [ "$(number $base 'use_mix_6": .*"union": ')" = 6 ] &&
        awk "BEGIN { exit !($(number $base 'use_own_6": .*"union": ') > 6 && $(number $base 'use_own_6": .*"jaccard": ') < 1) }" &&
        awk "BEGIN { exit !($(number $base 'use_own_6": .*"served": ') > $(number $base 'use_other_6": .*"served": ')) }"
    result $? "which experts are kept: $(grep -o 'use_..*_6": {[^}]*' "$place/$base")"
    # A memory with room for all misses each expert once, whoever goes; with room for few Belady has the fewest.
    [ "$(number $base '"16": .*"lru": ')" = "$(number $base '"16": .*"belady": ')" ] &&
        awk "BEGIN { exit !($(number $base '"6": .*"belady": ') < $(number $base '"6": .*"lru": ') && $(number $base '"16": .*"lru": ') > 0) }" &&
        grep -q '^base,' "$place/csv/cache-misses-per-token.csv"
    result $? "cache: $(grep -A2 '"cache"' "$place/$base")"
    # The tables have the base and every way; compare.json the paired differences and every domain.
    grep -q '^base,' "$place/csv/whole-answers-with-few-experts-by-reap.csv" && grep -q '^use,mix,none,6' "$place/csv/which-experts-are-kept.csv" &&
        grep -q '^base,' "$place/csv/whole-answers-with-fewer-experts-a-token.csv" && grep -q 'own − mix 6' "$place/page.md" &&
        grep -q '^pruned reap_own_6,base,' "$place/csv/few-experts-by-domain.csv" &&
        grep -q '"pruned_reap_own-mix_50%_accuracy": {"none": ' "$place/whole/compare.json"
    result $? "tables: $(ls "$place/csv")"
    # Done, nothing is repeated; other amounts are another comparison.
    expect 0 "0 trained and measured now, 2 before" compare "$place/compare.yaml" "$few" "experts_per_token=[4, 1]" silence=true "cache=[6, 16]" $js
    expect 2 "made with other settings" compare "$place/compare.yaml" "$few" "experts_per_token=[1]" silence=true "cache=[6, 16]" $js
    expect 2 "made with other settings; choose another out, or remove it (and $place/whole/data" compare "$place/compare.yaml" "${few/rows: 30/rows: 31}" "experts_per_token=[4, 1]" silence=true "cache=[6, 16]" $js

    # One expert a token is the model whose config says so; silenced experts are those that are weighed with nothing.
    for kind in single silent; do
        mkdir "$place/$kind" && cp -R "$model/." "$place/$kind"
    done
    sed -i.was 's/"num_experts_per_tok": *[0-9]*/"num_experts_per_tok": 1/' "$place/single/config.json"
    sed -i.was 's/"routed_scaling_factor": *[0-9.]*/"routed_scaling_factor": 1e-6/' "$place/silent/config.json"
    ! cmp -s "$place/single/config.json" "$place/single/config.json.was" && ! cmp -s "$place/silent/config.json" "$place/silent/config.json.was"
    result $? "the models are not what this test takes them for"
    for kind in single silent; do
        expect 0 "" compare "$place/compare.yaml" model="$place/$kind" out="$place/of-$kind" $js
    done
    [ -n "$(asked $base 1)" ] && [ "$(asked $base 1)" = "$(loss of-single/cells/base-all/cell.json)" ]
    result $? "one expert a token: $(asked $base 1) and $(loss of-single/cells/base-all/cell.json)"
    awk "BEGIN { off = $(asked $base routed) - $(loss of-silent/cells/base-all/cell.json); exit !(off * off < 1e-10) }" &&
        awk "BEGIN { exit !($(asked $base routed) > $own + 0.01) }"
    result $? "silenced: $(asked $base routed) and $(loss of-silent/cells/base-all/cell.json), with all $own"

    # As many taken away by use is the same as the others kept by use, where both look at the same rows.
    expect 0 "" compare "$place/compare.yaml" out="$place/list" "domains=[math]" "prune=[10]" "problems={train: 40, test: 40}" $js
    expect 0 "" compare "$place/compare.yaml" out="$place/map" "domains=[math]" "prune={keep: 6, rows: 40}" "problems={train: 40, test: 40}" $js
    taken=$(sed -n 's/.*"pruned": \[\[[^,]*, \([^]]*\)\].*/\1/p' "$place/list/cells/none-math-s1/cell.json")
    [ -n "$taken" ] && [ "$taken" = "$(asked map/cells/none-math-s1/cell.json use_own_6)" ]
    result $? "taken away: $taken; kept: $(grep use_own_6 "$place/map/cells/none-math-s1/cell.json")"

    # The same rows choose, however training batches.
    for batch in 70 700; do
        expect 0 "" compare "$place/compare.yaml" out="$place/batch-$batch" "domains=[math]" "prune={keep: 6, rows: 13}" training.batch.tokens=$batch $js
    done
    served='use_own_6": .*"served": '
    one=$(number batch-70/cells/base-math/cell.json "$served")
    [ -n "$one" ] && [ "$one" = "$(number batch-700/cells/base-math/cell.json "$served")" ]
    result $? "rows by batches: $one and $(number batch-700/cells/base-math/cell.json "$served")"

    # Of two mixes each has a table of its own cells.
    expect 0 "" compare "$place/compare.yaml" out="$place/mixes" "domains=[{name: all, of: [math, language]}, {name: pair, of: [math, code]}]" \
        "prune={keep: 6, rows: 10}" training.optimizer.lr=0.01 training.steps=2 $js --csv "$place/mixes-csv"
    for mix in all pair; do
        awk -F , -v of="$(number mixes/cells/none-$mix-s1/cell.json '"use_own_6": .*"math": {"accuracy": ')" \
            '$2 == "none" { off = $3 - 100 * of; found = off * off < 1e-6 } END { exit !found }' "$place/mixes-csv/few-experts-of-$mix-by-domain.csv"
        result $? "the table of $mix: $(cat "$place"/mixes-csv/few-experts-of-$mix-by-domain.csv)"
    done

    # Whose rows choose is part of what a cell is: a domain that is only measured has none.
    shared="prune={keep: 6, by: [mix, other], rows: 10, mix_rows: 5}"
    expect 0 "" compare "$place/compare.yaml" out="$place/shared" "domains=[math, code]" "others=[language]" "$shared" $js
    expect 2 "made with other settings" compare "$place/compare.yaml" out="$place/shared" "domains=[math, code, language]" "$shared" $js
    # So is what they are, before a cell of that domain is made.
    rm -r "$place"/shared/cells/*-code*
    sed -i.was '$d' "$place/shared/data/train-code.jsonl"
    expect 2 "train-code.jsonl: is not what it was when cells of this comparison were made" compare "$place/compare.yaml" out="$place/shared" \
        "domains=[math, code]" "others=[language]" "$shared" $js

    # Of the base too: rows of the first seed choose its experts.
    drawn="problems={train: 40, test: 20, draw: seed}"
    expect 0 "" compare "$place/compare.yaml" out="$place/drawn" "domains=[math]" "prune={keep: 6, rows: 10}" "$drawn" "seeds=[1]" $js
    expect 2 "base-math/cell.json: was made with other settings" compare "$place/compare.yaml" out="$place/drawn" "domains=[math]" "prune={keep: 6, rows: 10}" \
        "$drawn" "seeds=[2]" $js

    # A signal while the base is measured: what was measured is written before the end.
    "$metier" compare "$place/compare.yaml" out="$place/ended" "$few" $js >"$place/text" 2>&1 &
    for _ in $(seq 500); do
        [ -e "$place/ended/cells/base-all/run" ] && break
        sleep 0.02
    done
    kill -TERM $!
    wait $!
    [ $? -ne 0 ] && [ -e "$place/ended/cells/base-all/cell.json" ] && [ ! -e "$place/ended/cells/none-all-s1/cell.json" ]
    result $? "a base that was interrupted: $(ls "$place/ended/cells/base-all"; cat "$place/text")"
}

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
