#!/bin/sh
# metier judge and metier review from the outside, against an endpoint of many moods. Usage: judge.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
here=$(dirname "$0")
samples=$here/../../../share/samples
failed=0
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT

fail() { printf 'judge.sh: %s\n' "$*"; failed=1; }

OPENAI_API_KEY=sk-very-secret-0123456789
export OPENAI_API_KEY
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy

cat >"$folder/answers" <<END
{"task": "gsm8k_chat", "id": "0", "answer": "6 bags, so \$18. #### 18"}
{"task": "gsm8k_chat", "id": 1, "answer": "That is \\\\boxed{30} {question} </script><b>"}
{"task": "gsm8k_chat", "id": "2", "answer": "He owes 7 dollars."}
END
"$metier" eval gsm8k_chat --data "$samples" --answers "$folder/answers" --out "$folder/fresh" --quiet >/dev/null ||
    fail "evaluating"

# Without libcurl the verb says so, and the rest does not depend on it.
"$metier" judge "$folder/fresh" --endpoint http://127.0.0.1:9/v1 --model m --retries 0 --quiet >/dev/null 2>"$folder/err"
if grep -q 'without libcurl' "$folder/err"; then
    printf 'judge.sh: built without libcurl, the endpoint is not tested\n'
    exit 77
fi
grep -q '127.0.0.1: .*after 1 try$' "$folder/err" || { cat "$folder/err"; fail "nobody there"; }
command -v python3 >/dev/null || { printf 'judge.sh: no python3\n'; exit 77; }

python3 "$here/endpoint_server.py" "$folder" &
server=$!
while [ ! -s "$folder/port" ] && kill -0 $server 2>/dev/null; do sleep 0.05; done
port=$(cat "$folder/port") || exit 1

# judge MOOD STATUS [options]: judges a fresh copy of the run; output in out, err, run
judge() {
    mood=$1
    expected=$2
    shift 2
    rm -rf "$folder/run"
    cp -r "$folder/fresh" "$folder/run"
    rm -f "$folder/run"/judge_*
    : >"$folder/requests"
    "$metier" judge "$folder/run" --endpoint "http://127.0.0.1:$port/$mood/v1" --model judge-1 --backoff 0.01 --quiet \
        "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    [ $got -eq "$expected" ] || { cat "$folder/out" "$folder/err"; fail "$mood: exit status $got, expected $expected"; }
    cat "$folder/out" "$folder/err" "$folder"/run/* | grep -q 'very-secret' && fail "$mood: the key was written"
}
requests() { wc -l <"$folder/requests"; }
verdicts() { cat "$folder"/run/judge_gsm8k_chat.jsonl 2>/dev/null | grep -c '"verdict": "'"$1"'"'; }

judge good 0
[ "$(verdicts correct)" -eq 2 ] && [ "$(verdicts incorrect)" -eq 1 ] || fail "good: the verdicts"
grep -q 'rule-llm .* 3 .*1.000 .*1.000' "$folder/out" || { cat "$folder/out"; fail "good: agreement"; }
grep -q '"agreement": {' "$folder/run/results.json" || fail "good: the summary"
grep -q '"exact_match,flexible"' "$folder/run/results.json" || fail "good: the summary lost something"
[ "$(grep -c 'with key' "$folder/requests")" -eq 3 ] || fail "good: three requests with a key"
judge together 0 # nobody is answered before two have asked
judge good 0

# again KEPT MOOD MODEL [options]: judges the run again; so many of its three verdicts are kept
again() {
    kept=$1
    mood=$2
    model=$3
    shift 3
    : >"$folder/requests"
    "$metier" judge "$folder/run" --endpoint "http://127.0.0.1:$port/$mood/v1" --model "$model" --quiet "$@" >"$folder/out" \
        2>"$folder/err" || { cat "$folder/err"; fail "$mood, $model $*: exit status"; }
    grep -q "^$((3 - kept)) answers* judged by $model, $kept had" "$folder/out" || { cat "$folder/out"; fail "$mood, $model $*: $kept kept"; }
    [ "$(requests)" -eq $((3 - kept)) ] || fail "$mood, $model $*: $(requests) requests"
}
# Nothing is asked twice; a torn line is cut off and its sample asked again.
again 3 good judge-1
head -c -20 "$folder/run/judge_gsm8k_chat.jsonl" >"$folder/torn"
cp "$folder/torn" "$folder/run/judge_gsm8k_chat.jsonl"
again 2 good judge-1
[ -s "$folder/err" ] && fail "the same judge says something"
# Another judge judges all again, and says so in one sentence; where it was stopped it goes on, and so far it alone counts.
{ cat "$here/../../../share/judge/prompt.txt" && echo 'Be brief.'; } >"$folder/prompt"
for other in 'good other' 'chatty other' "chatty other --prompt $folder/prompt" \
    "chatty other --prompt $folder/prompt --no-temperature"; do
    # shellcheck disable=SC2086
    again 0 $other
    grep -q '3 answers are judged again, by other at .*(before: .*prompt .*version 2' "$folder/err" || { cat "$folder/err"; fail "$other: who judges"; }
    [ "$(wc -l <"$folder/err")" -eq 1 ] || fail "$other: one sentence"
    # shellcheck disable=SC2086
    again 3 $other
done
head -n -2 "$folder/run/judge_gsm8k_chat.jsonl" >"$folder/torn"
cp "$folder/torn" "$folder/run/judge_gsm8k_chat.jsonl"
"$metier" review "$folder/run" --agreement | grep -q 'rule-llm  *1 ' || fail "verdicts of two judges are mixed"
again 1 chatty other --prompt "$folder/prompt" --no-temperature
[ -s "$folder/err" ] && fail "a judge that goes on says something"
# A verdict that an older version did not sign is nobody's.
sed -i 's/, "judged_by": "[^"]*"//' "$folder/run/judge_gsm8k_chat.jsonl"
again 0 good other
grep -q '(before: other)' "$folder/err" || { cat "$folder/err"; fail "an older version's verdicts"; }
# A question, or a right answer, that was edited since: that sample is judged again, once, and that is said.
for edit in 's/"target": "18"/"target": "19"/' '2s/"prompt": "/&Now: /'; do
    sed -i "$edit" "$folder/run/samples_gsm8k_chat.jsonl"
    "$metier" review "$folder/run" --agreement | grep -q '^llm: 1 verdict is left out, because' || fail "$edit: left out"
    again 2 good other
    grep -q 'warning: 1 answer is judged again: the answer, the question or the right answer has changed' "$folder/err" ||
        { cat "$folder/err"; fail "$edit: why"; }
    again 3 good other
    [ -s "$folder/err" ] && fail "$edit: said again"
done

judge busy 0 --parallel 3
[ "$(requests)" -eq 9 ] || fail "busy: nine requests, not $(requests)"
judge broken 0
[ "$(requests)" -eq 6 ] || fail "broken: six requests"
judge dead 1 --retries 2 --parallel 1
[ "$(requests)" -eq 3 ] || fail "dead: three tries"
grep -q '503: no room for .*after 3 tries' "$folder/err" || { cat "$folder/err"; fail "dead: why"; }
# A run's folder that is removed and made anew meanwhile is left alone.
rm -rf "$folder/run" "$folder/taken"
cp -r "$folder/fresh" "$folder/run"
rm -f "$folder/run"/judge_*
"$metier" judge "$folder/run" --endpoint "http://127.0.0.1:$port/held/v1" --model judge-1 --parallel 1 --quiet \
    >"$folder/out" 2>"$folder/err" &
judging=$!
while [ ! -e "$folder/run/judge_gsm8k_chat.jsonl" ] && kill -0 $judging 2>/dev/null; do sleep 0.05; done
mv "$folder/run" "$folder/taken" && mkdir "$folder/run"
echo 3 >"$folder/go"
if wait $judging; then fail "verdicts for a folder that is not there"; fi
grep -q 'run: was moved, removed or replaced' "$folder/err" || { cat "$folder/err"; fail "the lost folder is not told of"; }
[ -z "$(ls -A "$folder/run")" ] || fail "somebody else's folder was written to"

judge held 1 --timeout 0.3 --retries 1 --parallel 1
grep -qi 'timeout' "$folder/err" || { cat "$folder/err"; fail "held: why"; }
judge garbage 1
grep -q '3 answers got no verdict, .*not JSON' "$folder/err" || fail "garbage: why"
judge shapeless 1
grep -q '3 answers got no verdict, .*content' "$folder/err" || { cat "$folder/err"; fail "shapeless: why"; }
judge deep 1
judge truncated 1 --retries 1
judge huge 1
grep -q 'more than 4 MiB' "$folder/err" || { cat "$folder/err"; fail "huge: why"; }
judge redirect 2
grep -q 'metier follows no redirects' "$folder/err" || fail "redirect: why"
grep -q '/good' "$folder/requests" && fail "redirect: it was followed"
judge stranger 2
grep -q 'does not accept the key' "$folder/err" || fail "stranger: why"
judge refuse 1
grep -q 'status 400: too long' "$folder/err" || { cat "$folder/err"; fail "refuse: why"; }
grep -q "$(printf '\033')" "$folder/err" && fail "refuse: control characters reach the terminal"
judge echo 0
grep -q 'thrice .*\*\*\*' "$folder/run/judge_gsm8k_chat.jsonl" || fail "echo: the reply is kept without the key"
judge escaped 0
judge chatty 0
[ "$(verdicts correct)" -eq 2 ] && [ "$(verdicts incorrect)" -eq 1 ] || fail "chatty: a verdict in a sentence"
# A reply without a verdict is asked for again, not for ever, and by the next call.
judge mumbling 0
[ "$(verdicts correct)" -eq 2 ] && [ "$(verdicts incorrect)" -eq 1 ] || fail "mumbling: the second reply counts"
[ "$(requests)" -eq 6 ] || fail "mumbling: six requests, not $(requests)"
judge silent 0
[ "$(verdicts unreadable)" -eq 3 ] && [ "$(requests)" -eq 9 ] || fail "silent: three times three requests"
grep -q 'llm  *0  *0  *0  *3 ' "$folder/out" || { cat "$folder/out"; fail "silent: the table counts them"; }
"$metier" judge "$folder/run" --endpoint "http://127.0.0.1:$port/silent/v1" --model judge-1 --quiet >"$folder/out" ||
    fail "silent twice"
grep -q '^3 answers judged by judge-1, 0 had' "$folder/out" || { cat "$folder/out"; fail "unreadable ones are asked again"; }
judge warm 1
grep -q 'temperature is not supported' "$folder/err" || { cat "$folder/err"; fail "warm: why"; }
judge warm 0 --no-temperature
judge nowhere 2
OPENAI_API_KEY='two words' judge good 2
grep -q 'two words' "$folder/err" && fail "the bad key was named"

# Evaluating again writes the summary anew; agreement stays in it.
judge good 0
"$metier" eval gsm8k_chat --data "$samples" --answers "$folder/answers" --out "$folder/run" --quiet >/dev/null || fail "again"
grep -q '"agreement": {' "$folder/run/results.json" || fail "agreement is lost when evaluating again"

# refuse SENTENCE options: nothing is sent
: >"$folder/requests"
refuse() {
    sentence=$1
    shift
    "$metier" judge "$folder/fresh" --model m --quiet "$@" 2>"$folder/err" >/dev/null && fail "not refused: $*"
    grep -q -- "$sentence" "$folder/err" || { cat "$folder/err"; fail "no '$sentence' for $*"; }
}
refuse 'plain http to example.org' --endpoint http://example.org/v1
refuse 'plain http to 127.example.org' --endpoint http://127.example.org/v1
refuse "protocol is 'ftp'" --endpoint ftp://127.0.0.1/v1
refuse 'user name' --endpoint https://me:pass@example.org/v1
refuse 'not a URL' --endpoint ''
refuse 'not set' --endpoint "http://127.0.0.1:$port/good" --key-env METIER_NO_SUCH_KEY
refuse "no samples of a task 'gsm9k'" --endpoint "http://127.0.0.1:$port/good" --tasks gsm9k
refuse 'expected 1 to 256' --endpoint "http://127.0.0.1:$port/good" --parallel 1000
[ "$(requests)" -eq 0 ] || fail "something was sent"

# A person: the page, and the way back.
judge good 0
"$metier" review "$folder/run" --out "$folder/page.html" >/dev/null || fail "the page"
grep -q '</script><b>' "$folder/page.html" && fail "an answer is HTML in the page"
[ "$(grep -c '</script>' "$folder/page.html")" -eq 2 ] || fail "two scripts end"
grep -qE '(src|href)="?https?:' "$folder/page.html" && fail "the page needs the network"
"$metier" review "$folder/run" --sample 2 --seed 3 --out "$folder/some.html" | grep -q '^2 answers' || fail "a sample of two"
hash=$(sed -n 's/.*"id": "2".*"answer_hash": "\([0-9a-f]*\)".*/\1/p' "$folder/run/judge_gsm8k_chat.jsonl")
mark() { # TASK ID HASH VERDICT
    printf '{"format": "metier-review", "version": 1, "marks": [{"task": "%s", "id": "%s", "answer_hash": "%s", "verdict": "%s"}]}' \
        "$@" >"$folder/marks.json"
}
mark gsm8k_chat 2 "$hash" correct
"$metier" eval --merge-review "$folder/marks.json" --out "$folder/run" >"$folder/out" || fail "merging"
grep -q 'rule-human .* 1 .*0.000' "$folder/out" || { cat "$folder/out"; fail "the person disagrees"; }
[ "$(wc -l <"$folder/run/review_gsm8k_chat.jsonl")" -eq 1 ] || fail "one mark"
cp "$folder/run/review_gsm8k_chat.jsonl" "$folder/kept"
for bad in "gsm9k 2 $hash correct" "gsm8k_chat 9 $hash correct" "gsm8k_chat 2 00 correct" "gsm8k_chat 2 $hash perhaps"; do
    # shellcheck disable=SC2086
    mark $bad
    "$metier" review "$folder/run" --merge "$folder/marks.json" >/dev/null 2>"$folder/err" && fail "merged: $bad"
    grep -q 'marks\[0\]' "$folder/err" || { cat "$folder/err"; fail "which mark is wrong: $bad"; }
done
cmp -s "$folder/kept" "$folder/run/review_gsm8k_chat.jsonl" || fail "a refused file changed the marks"
# A mark belongs to its question and right answer.
grep -q '"question_hash": "[0-9a-f]*", "verdict": "correct"' "$folder/kept" || fail "what the person was asked"
sed -i '3s/"prompt": "/&Now: /' "$folder/run/samples_gsm8k_chat.jsonl"
"$metier" review "$folder/run" --agreement >"$folder/out" || fail "agreement"
grep -q '^human: 1 verdict is left out' "$folder/out" || { cat "$folder/out"; fail "a mark of an edited question"; }
sed 's/.*"answer_hash"/{"task": "gsm8k_chat", "id": "2", "answer_hash"/; s/.*/{"format": "metier-review", "version": 1, "marks": [&]}/' \
    "$folder/kept" >"$folder/marks.json"
"$metier" review "$folder/run" --merge "$folder/marks.json" >/dev/null 2>"$folder/err" && fail "merged a mark of an edited question"
grep -q "is about another question, right answer or answer of sample '2'" "$folder/err" || { cat "$folder/err"; fail "why"; }
exit $failed
