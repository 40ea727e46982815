#!/bin/bash
# metier compare from outside: what it writes, prints and refuses; killed and started again. Usage: compare.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

# same FOLDER FOLDER: compare.json of both, but for times.
same() {
    cmp -s <(grep -v '"times' "$place/$1/compare.json") <(grep -v '"times' "$place/$2/compare.json")
    result $? "$1/compare.json and $2/compare.json differ"
}

"$here/support/train-bench" "$metier" "$place" || exit 1
head -n 30 "$place/data.jsonl" >"$place/test.jsonl"
cat >"$place/compare.yaml" <<END
model: $place/model
out: $place/whole
methods: [aux, {name: strong, method: paper, objective.beta: 0.1}]
seeds: [1, 2]
domains: [{name: sums, train: $place/data.jsonl, test: $place/test.jsonl}]
others: [{name: all, test: $place/data.jsonl}]
training:
    steps: 6
    data: {max_length: 32}
    batch: {examples: 8, tokens: 64}
    lora: {rank: 4, alpha: 8}
    checkpoint: {every: 2}
threads: 1
END
echo '/* stands for Chart.js v3.0 */' >"$place/chart.js"
js="--chart-js $place/chart.js"

expect 0 "metier compare CONFIG.yaml" compare --help
expect 0 "problems.difficulty" compare --keys
expect 2 "a configuration file is missing" compare
expect 1 "nothing.yaml" compare "$place/nothing.yaml"
expect 2 "there is no key 'seed'; did you mean 'seeds'?" compare "$place/compare.yaml" seed=3
expect 2 "did you mean 'lora.rank'?" compare "$place/compare.yaml" training.lora.rnak=3
expect 2 "training.device=cuda: training has device, which it does not decide: its own key device does" compare "$place/compare.yaml" training.device=cuda
expect 2 "objective.form means nothing here: L_o is off" compare "$place/compare.yaml" \
    "methods=[{name: aux, objective.form: cosine}]"
# A key for all that changes nothing under any method; for one of them is enough; what the file says is void where its
# methods are replaced.
expect 2 "objective.bias_rate under training means nothing: no method uses it (aux: bias_rule is none)" \
    compare "$place/compare.yaml" training.objective.bias_rate=0.01
sed 's/^training:$/training:\n    objective.form: cosine/' "$place/compare.yaml" >"$place/shared.yaml"
expect 0 "" compare "$place/shared.yaml" out="$place/shared" training.steps=1
expect 0 "" compare "$place/shared.yaml" out="$place/replaced" training.steps=1 "methods=[aux]"
sed 's/^methods:.*/methods: [aux, none]/' "$place/shared.yaml" >"$place/idle.yaml"
expect 2 "idle.yaml: objective.form under training means nothing" compare "$place/idle.yaml" out="$place/idle"
expect 2 "(strong: it has its own)" compare "$place/shared.yaml" out="$place/idle" \
    "methods=[{name: strong, method: paper, objective.beta: 0.1}]" training.objective.beta=0.2
# The seed of what a method draws, for the one that draws; noise for none.
expect 0 "" compare "$place/compare.yaml" out="$place/drawing" training.steps=1 training.objective.seed=9 "methods=[none, gshard]"
expect 2 "objective.seed under training means nothing: no method uses it (none: the method draws nothing" \
    compare "$place/compare.yaml" out="$place/idle" training.objective.seed=9 "methods=[none]"
expect 2 "objective.jitter under training means nothing: no method uses it (aux: noise is false" \
    compare "$place/compare.yaml" out="$place/idle" training.objective.jitter=0.1 training.noise=false "methods=[aux]"
expect 2 "analysis.agreement means nothing" compare "$place/compare.yaml" out="$place/idle" analysis.agreement=true
expect 2 "problems.test means nothing: every domain has a test file" compare "$place/compare.yaml" out="$place/idle" problems.test=5
[ ! -e "$place/idle" ]
result $? "a comparison that was refused left a folder"
expect 2 "--latex means nothing with --keys" compare --keys --latex x.tex
expect 2 "unexpected argument 'x.yaml' with --keys" compare --keys x.yaml
expect 0 "FOLDER; default required" compare --keys --quiet
# Of nothing there are no tables, with --quiet or without.
expect 2 "has finished" compare "$place/compare.yaml" --tables --quiet
mkdir "$place/empty"
expect 2 "no cell of $place/empty has finished; run the same command without --tables to train them" compare "$place/compare.yaml" \
    out="$place/empty" --tables
expect 2 "no cell of $place/nowhere has finished" compare "$place/compare.yaml" out="$place/nowhere" --tables
[ -z "$(ls "$place/empty")" ] && [ ! -e "$place/nowhere" ]
result $? "tables of nothing were written"
# A dry run names the device, what the largest cell needs, and what is free.
expect 0 "device: cpu" compare "$place/compare.yaml" out="$place/nowhere" --dry-run
head -n 1 "$place/text" | grep -q '^device: cpu, ' && grep -q '^the largest: strong from ' "$place/text" &&
    grep -q '^memory of the host$' "$place/text" && grep -q '^  in all .* free of ' "$place/text" && [ ! -e "$place/nowhere" ]
result $? "the plan: $(cat "$place/text")"
expect 2 "there is no method 'pepper'" compare "$place/compare.yaml" "methods=[aux, pepper]"

# shellcheck disable=SC2086
{
    expect 0 "$place/whole/report.html" compare "$place/compare.yaml" $js --markdown "$place/tables.md"
    expect 0 "strong" compare "$place/compare.yaml" $js --tables --latex "$place/tables.tex" --csv "$place/csv" --svg "$place/svg"
    grep -q '\\bottomrule' "$place/tables.tex" && grep -q '^strong,' "$place"/csv/whole-answers.csv &&
        [ -s "$place/svg/balance-and-loss-while-training.svg" ]
    result $? "no tables in LaTeX and CSV, or no pictures"
    grep -q '### Whole answers' "$place/tables.md" && grep -q 'strong' "$place/whole/report.html"
    result $? "the page has no table of accuracy"
    # The model before training stands first wherever methods do, and is measured as they are.
    for table in whole-answers balance-and-geometry differences-in-balance-and-geometry loads-paths-and-coupling; do
        [ "$(sed -n '2s/,.*//p' "$place/csv/$table.csv")" = base ]
        result $? "$table has no base: $(head -n 2 "$place/csv/$table.csv")"
    done
    grep -q '^base .* *–$' "$place/text" && grep -q '"base": \[' "$place/whole/compare.json" &&
        grep -q '"panel": *"base"\|>base<' "$place/whole/report.html" && [ ! -e "$place/whole/cells/base-sums/run" ]
    result $? "the base: $(grep '^base' "$place/text"; ls "$place/whole/cells/base-sums")"
    expect 2 "made with other settings" compare "$place/compare.yaml" training.steps=7

    # Nothing that took hours depends on a page. Without Chart.js it has pictures, and says before and after what it lacks.
    expect 0 "$place/whole/report.html" compare "$place/compare.yaml" --chart-js "$place/nowhere.js"
    [ "$(grep -c '^metier: warning: .*Chart.js is missing (.*nowhere.js.*apt install libjs-chart.js' "$place/text")" -eq 2 ] &&
        grep -q '<p class="note missing">Chart.js is missing' "$place/whole/report.html" &&
        grep -q 'src="data:image/svg+xml;base64,' "$place/whole/report.html" && grep -q '>strong</th>' "$place/whole/report.html"
    result $? "without Chart.js: $(cat "$place/text")"
    # Where it cannot be written, the tables and compare.json are there, and how to write it is said.
    mkdir "$place/in-the-way" && mv "$place/whole/report.html" "$place/in-the-way" && mkdir "$place/whole/report.html"
    mv "$place/whole/compare.json" "$place/in-the-way"
    expect 1 "the results are all written, the page is not; to write it: metier compare $place/compare.yaml --tables" \
        compare "$place/compare.yaml" $js --csv "$place/csv-without"
    cmp -s "$place/whole/compare.json" "$place/in-the-way/compare.json" && grep -q '^strong ' "$place/text" &&
        grep -q 'whole/report.html' "$place/text" && grep -q '^strong,' "$place/csv-without/whole-answers.csv"
    result $? "without a page: $(cat "$place/text")"
    rmdir "$place/whole/report.html"
    # Nor where the files it is made of are not there.
    mkdir "$place/bare" && for part in "${metier%/bin/*}"/share/metier/*; do
        [ "${part##*/}" = report ] || ln -s "$part" "$place/bare"
    done
    cp "$metier" "$place/metier" # beside which there is no share
    METIER_SHARE=$place/bare "$place/metier" compare "$place/compare.yaml" $js >"$place/text" 2>&1
    [ $? -ne 0 ] && grep -q '^metier: warning: the page will be missing: ' "$place/text" && grep -q '^strong ' "$place/text" &&
        grep -q 'the results are all written, the page is not' "$place/text" && [ ! -e "$place/whole/report.html" ]
    result $? "without share/report: $(cat "$place/text")"
    expect 0 "$place/whole/report.html" compare "$place/compare.yaml" $js --tables

    # Other files of the same length: those of cells that are done are noticed, and cells are not mixed.
    cp "$place/test.jsonl" "$place/kept.jsonl"
    sed 's/"9 plus/"8 plus/' "$place/kept.jsonl" >"$place/test.jsonl"
    expect 2 "test.jsonl: is not what it was when cells of this comparison were made (its content has changed)" \
        compare "$place/compare.yaml" $js --quiet
    expect 0 "strong" compare "$place/compare.yaml" $js --tables
    cp "$place/kept.jsonl" "$place/test.jsonl"
    expect 0 "strong" compare "$place/compare.yaml" $js --quiet
    rm "$place"/whole/cells/*/inputs.json
    expect 0 "inputs.json: is missing: metier cannot tell whether model and data" compare "$place/compare.yaml" $js --quiet

    # Figures that there are none of are left out: of other domains, and of the seconds of a single step.
    sed '/^others:/d' "$place/compare.yaml" >"$place/alone.yaml"
    expect 0 "aux-sums-s1: exact " compare "$place/alone.yaml" out="$place/alone" "methods=[aux]" training.steps=1 $js
    ! grep -E '^aux-sums-s1: .*(nan|others|s/step)' "$place/text"
    result $? "a cell's line has figures that there are none of"

    # Killed again and again, with ever more files written, it ends with the same.
    for files in 1 5 12 20 28 40; do
        "$metier" compare "$place/compare.yaml" out="$place/killed" $js --quiet >/dev/null 2>&1 &
        until_files $files $!
        kill -9 $! 2>/dev/null
        wait $! 2>/dev/null
    done
    expect 0 "$place/killed/report.html" compare "$place/compare.yaml" out="$place/killed" $js --quiet
    same whole killed

    # Cells that were there and cells that are new are both counted.
    expect 0 "$place/more/report.html" compare "$place/compare.yaml" out="$place/more" "seeds=[1]" $js --quiet --markdown "$place/one.md"
    ! grep -q ' before$' "$place/text"
    result $? "a first comparison speaks of cells before"
    # One seed has no whiskers, and says so; two have.
    grep -q "No whiskers: one seed" "$place/one.md" && ! grep -qi "whiskers are\|± nan" "$place/one.md"
    result $? "one seed: $(grep -i "whiskers\|nan" "$place/one.md")"
    grep -q "whiskers are standard errors of paired differences" "$place/tables.md" &&
        grep -q '^| model | method | difference in points | low | high |' "$place/tables.md"
    result $? "two seeds: $(grep -i whiskers "$place/tables.md")"
    expect 0 "of 4 cells and 1 base, 2 trained and measured now, 3 before" compare "$place/compare.yaml" out="$place/more" $js --quiet

    # Three programs at the same time, a share each; then everything is there.
    for share in 1 2 3; do
        "$metier" compare "$place/compare.yaml" out="$place/shares" --share $share/3 $js --quiet >"$place/share$share" 2>&1 &
    done
    wait
    for share in 1 2 3; do
        grep -q "^written: $place/shares/compare.json" "$place/share$share"
        result $? "share $share of 3: $(tail -n 3 "$place/share$share")"
    done
    expect 0 "of 4 cells and 1 base, 0 trained and measured now, 5 before" compare "$place/compare.yaml" out="$place/shares" $js --quiet
    same whole shares
    expect 0 "$place/figures/report.html" compare "$place/compare.yaml" out="$place/figures" keep=figures $js --quiet
    same whole figures
    [ -z "$(find "$place/figures" -name '*.safetensors')" ] && [ -n "$(find "$place/whole" -name '*.safetensors')" ]
    result $? "keep=figures keeps runs, or keep=runs does not"
    expect 0 "1 cell is for other shares to do, not there yet" compare "$place/compare.yaml" out="$place/halves" "seeds=[1]" \
        --share 1/2 $js --quiet
    for share in 0/2 3/2 1 1/ 1/x -1/2 '1/2 '; do
        expect 2 "expected I/N (share I of N" compare "$place/compare.yaml" --share "$share" $js
    done

    # Rows that cannot be used are named, with and without --quiet.
    { cat "$place/data.jsonl"; printf 'not json\n'; } >"$place/torn.jsonl"
    torn="domains=[{name: sums, train: $place/torn.jsonl, test: $place/test.jsonl}]"
    expect 0 "torn.jsonl:121" compare "$place/compare.yaml" out="$place/torn1" "$torn" "seeds=[1]" training.steps=20 $js --quiet
    expect 0 "torn.jsonl:121" compare "$place/compare.yaml" out="$place/torn2" "$torn" "seeds=[1]" training.steps=20 $js

    # One cell fails; the others are there, and so is what they give.
    broken="methods=[aux, {name: broken, method: aux, experts: $place/nowhere}]"
    expect 1 "failed: broken-sums-s1: " compare "$place/compare.yaml" out="$place/broken" "$broken" $js --quiet
    [ -f "$place/broken/cells/aux-sums-s2/cell.json" ] && [ -f "$place/broken/report.html" ]
    result $? "a failing cell stopped the others"
}

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
