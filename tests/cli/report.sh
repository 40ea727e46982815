#!/bin/sh
# metier report from the outside: a page of two runs, its files, refusals. Usage: report.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

fail() { printf 'report.sh: %s\n' "$*"; failed=1; }

# log RUN FACTOR: a log of 30 steps.
log() {
    mkdir -p "$folder/$1"
    awk -v factor="$2" 'BEGIN { for (i = 1; i <= 30; i++)
        printf "{\"kind\":\"step\",\"step\":%d,\"steps\":30,\"loss\":%g,\"task\":%g,\"learning_rate\":1e-4,\"max_violation\":%g,\"seconds\":%d,\"layers\":{\"layer\":[1],\"max_violation\":[%g],\"load\":[[3,%d]]}}\n",
            i, factor / i, factor / i, factor, i, factor, i }' >"$folder/$1/metrics.jsonl"
    printf 'method: metier\nseed: %s\n' "$2" >"$folder/$1/config.yaml"
}
log a 1
log b 2
echo '/* stands for Chart.js v3.0 */' >"$folder/chart.js"

(cd "$folder" && "$metier" report a b --out page.html --chart-js chart.js --markdown page.md --png png --data data \
    --latex page.tex --csv csv --svg svg --title 'A <b>title</b>' >out) || fail "two runs"
grep -q '<h1>A &lt;b&gt;title&lt;/b&gt;</h1>' "$folder/page.html" || fail "the title"
grep -q 'metier analyze' "$folder/page.html" || fail "what is missing is not said"
grep -q '^# A &lt;b>title' "$folder/page.md" || fail "the title in Markdown"
grep -q '(<png/training-loss.png>)' "$folder/page.md" || fail "links to pictures"
[ -s "$folder/png/load-of-experts-a.png" ] || fail "pictures"
[ "$(wc -l <"$folder/data/training-loss.csv")" -eq 61 ] || fail "60 rows and a title in the CSV"
cr=$(printf '\r') # lines of CSV end with it (RFC 4180)
grep -q "^b,mean over layers,1,30$cr\$" "$folder/data/rmse-of-maxvio-to-the-first-run.csv" || fail "the RMSE"
grep -q "^seed,1,2$cr\$" "$folder/data/settings-that-differ.csv" || fail "the settings"
cmp -s "$folder/csv/settings-that-differ.csv" "$folder/data/settings-that-differ.csv" || fail "tables as CSV"
[ ! -e "$folder/csv/training-loss.csv" ] || fail "a curve among the tables"
grep -q '^</svg>' "$folder/svg/load-of-experts-a.svg" || fail "pictures as SVG"
grep -q '\\label{tab:settings-that-differ}' "$folder/page.tex" || fail "tables in LaTeX"
grep -q '{\\detokenize{png/training-loss.png}}' "$folder/page.tex" || fail "pictures in LaTeX"
[ "$(grep -c '\\begin{table}' "$folder/page.tex")" -eq "$(grep -c '\\bottomrule' "$folder/page.tex")" ] || fail "tables end"
grep -qE 'src=|href="http' "$folder/page.html" && fail "the page refers to something outside"

# analysis RUN EXPERTS SHARE: tokens of these experts, in this order, and the share that expert 0 has of a domain.
analysis() {
    points=
    for expert in $2; do points="$points${points:+, }[0.1, 0.2, $expert]"; done
    cat >"$folder/$1/analysis.json" <<END
{"format": "metier-analysis-1", "experts": 2, "domains": ["d"], "by_domain": {}, "formulas": {}, "drift": null,
 "overall": {"layers": [], "mean": {}}, "affinity": [{"layer": 1, "information": 0, "share": [[$3, 0.4]]}],
 "pca": [{"layer": 1, "points": [$points], "variance": [1, 1], "total_variance": 4}]}
END
}
analysis a '3 7 1' 0.6
analysis b '7 19 3' 0.9
(cd "$folder" && "$metier" report a b --out page.html --chart-js chart.js >out) || fail "runs with an analysis"
python3 - "$folder/page.html" <<'END' || fail "colours that differ between figures"
import json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
figures = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page, re.S)]
hues = {}
for figure in figures:
    for name, hue in zip(figure["columns"][0].get("levels", []), figure.get("colours", [])):
        hues.setdefault((figure["columns"][0]["name"], name), set()).add(hue)
assert {("expert", "expert %d" % e) for e in (1, 3, 7, 19)} <= set(hues), hues
assert all(len(found) == 1 for found in hues.values()), hues
experts = [found for (kind, _), found in hues.items() if kind == "expert"]
assert len(set.union(*experts)) == len(experts) == 4, experts
for title in "Experts and domains", "Load of experts", "MaxVio of each layer":
    ranges = [figure["range"] for figure in figures if figure["title"].startswith(title)]
    assert len(ranges) == 2 and ranges[0] == ranges[1], (title, ranges)
assert [f["range"] for f in figures if f["title"].startswith("Experts and d")][0] == [0, 0.9]
END

refused() {
    words=$1
    shift
    "$metier" report "$@" >/dev/null 2>"$folder/err" && fail "not refused: $*"
    grep -q "$words" "$folder/err" || { cat "$folder/err"; fail "the message for $*"; }
}
refused 'folder of a run is missing' --out x.html
refused 'nothing to write' "$folder/a"
refused 'given twice' "$folder/a" "$folder/a/" --out "$folder/x.html"
refused 'has no metrics.jsonl' "$folder" --out "$folder/x.html"
[ ! -e "$folder/x.html" ] || fail "a refused page was written"

# Without Chart.js, or with what is not it, the page is there: tables, pictures, and what is missing, here and there.
printf '</script> Chart.js v3.0' >"$folder/bad.js"
echo '/* Chart.js v2.9 */' >"$folder/old.js"
for js in none bad old; do
    "$metier" report "$folder/a" "$folder/b" --out "$folder/still.html" --chart-js "$folder/$js.js" >"$folder/out" 2>"$folder/err" ||
        fail "$js.js: no page: $(cat "$folder/err")"
    grep -q "^metier: warning: .*still.html: Chart.js is missing (.*$js.js.*apt install libjs-chart.js" "$folder/err" ||
        { cat "$folder/err"; fail "$js.js: what is missing is not said"; }
    grep -q '<p class="note missing">Chart.js is missing (.*apt install libjs-chart.js' "$folder/still.html" ||
        fail "$js.js: what is missing is not in the page"
    grep -q 'src="data:image/svg+xml;base64,' "$folder/still.html" || fail "$js.js: no pictures"
    grep -q '<th scope="row">seed</th>' "$folder/still.html" || fail "$js.js: no tables"
done
grep -q 'missing">Chart.js' "$folder/page.html" && fail "Chart.js is there, and missing"
# The picture in the page is that of --svg.
python3 - "$folder/still.html" "$folder/svg/training-loss.svg" <<'END' || fail "the picture in the page"
import base64, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
pictures = [base64.b64decode(text, validate=True) for text in re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)]
assert open(sys.argv[2], "rb").read() in pictures
END
# A file that cannot be written keeps none of the others from it.
"$metier" report "$folder/a" --out "$folder/still.html/x" --latex "$folder/still.html/y" --csv "$folder/rest" >"$folder/out" 2>"$folder/err" &&
    fail "a page below a file"
grep -q 'still.html' "$folder/err" && [ -s "$folder/rest/settings.csv" ] || { cat "$folder/err"; fail "the tables are not written without the page"; }
"$metier" report "$folder/a" --csv "$folder/still.html/x" --out "$folder/other.html" >"$folder/out" 2>"$folder/err" && fail "tables below a file"
[ -s "$folder/other.html" ] || fail "the page is not written without the tables"

# A leaderboard of two comparisons: names are text, whatever they hold; what is not a comparison is refused.
# board FILE METHOD BASE: a comparison of one method with two seeds.
board() {
    mkdir -p "$folder/${1%/*}"
    printf '{"cells": [' >"$folder/$1"
    for seed in 1 2; do
        [ $seed -eq 1 ] || printf ', ' >>"$folder/$1"
        printf '{"model": "%s", "method": "%s", "domain": "math", "seed": %d, "known": true, "figures": {"accuracy": 0.%d, "loss": 1}, "times": {"seconds_per_step": 0.5}}' \
            "$3" "$2" $seed $((4 + seed)) >>"$folder/$1"
    done
    printf ']}' >>"$folder/$1"
}
board one/compare.json aux '<script>alert(1)</script>'
board two/compare.json '<img src=x onerror=alert(2)>' small
(cd "$folder" && "$metier" report one two/compare.json --out board.html --chart-js chart.js --markdown board.md >out) ||
    fail "a leaderboard"
grep -q 'alert(1)' "$folder/board.html" || fail "a base is missing in the leaderboard"
grep -q '<script>alert\|<img' "$folder/board.html" && fail "names are not escaped"
grep -q '&lt;img src=x onerror=alert(2)&gt;' "$folder/board.html" || fail "a method is missing in the leaderboard"
[ "$(grep -c 'data-filtered>' "$folder/board.html")" -eq 2 ] || fail "tables to filter: answers, cost"
grep -q '55.0[*]* ± 63.5 |' "$folder/board.md" || fail "55 ± 12.7062 · 5 in the leaderboard"
refused 'given twice' "$folder/one" "$folder/one/compare.json" --out "$folder/x.html"
refused 'is not a comparison, but others are' "$folder/one" "$folder/a" --out "$folder/x.html"
refused 'is not a compare.json' "$folder/data/training-loss.json" --out "$folder/x.html"
board three/compare.json 7 '", "known": 3, "x": "'
refused 'known' "$folder/three" --out "$folder/x.html"
[ ! -e "$folder/x.html" ] || fail "a refused leaderboard was written"
exit $failed
