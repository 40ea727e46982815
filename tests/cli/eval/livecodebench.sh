#!/bin/sh
# metier eval livecodebench: what is asked, programs judged by their cases, windows of dates, rows that cannot be judged.
# Usage: livecodebench.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
share=$(cd "$(dirname "$0")/../../../share" && pwd)
failed=0

fail() { printf 'livecodebench.sh: %s\n' "$*"; failed=1; }
said() { grep -qF -- "$1" "$folder/err" || { cat "$folder/err"; fail "not said: $1"; }; }

# Programs that read and functions that are called are asked for in different words.
"$metier" eval livecodebench --data "$share/samples" --questions "$folder/questions" || fail "--questions"
[ "$(wc -l <"$folder/questions")" -eq 4 ] || fail "four questions of two files were expected"
reads='### Format: Read the inputs from stdin .* to STDOUT\.\\n```python\\n# YOUR CODE HERE\\n```\\n\\n### Answer: (use the provided format with backticks)\\n\\n"'
calls='### Format: You will use the following starter code .* within delimiters\.\\n```python\\nclass Solution:\\n    def '
[ "$(grep -c "$reads" "$folder/questions")" -eq 2 ] || fail "two programs that read"
[ "$(grep -c "$calls" "$folder/questions")" -eq 2 ] || fail "two functions"

# A window of dates, both days in it.
sed '$arows: contest_date from 2024-08-01 to 2025-01-11' "$share/tasks/livecodebench.yaml" >"$folder/livecodebench.yaml"
"$metier" eval "$folder/livecodebench.yaml" --data "$share/samples" --questions "$folder/questions" || fail "a window"
[ "$(sed 's/.*"id": "\([^"]*\)".*/\1/' "$folder/questions" | tr '\n' ' ')" = "own_mean own_plateau " ] ||
    { cut -c 1-80 "$folder/questions"; fail "which questions are in the window"; }

# Rows that cannot be judged are left out, each with its reason.
mkdir -p "$folder/data/livecodebench"
row='{"question_content": "?", "question_id": "ID", "starter_code": "", "public_test_cases": PUBLIC, "private_test_cases": PRIVATE, "metadata": "{}"}'
list() { printf '"[{\\"input\\": \\"1\\", \\"output\\": \\"2\\", \\"testtype\\": \\"%s\\"}]"' "$1"; }
put() { printf '%s\n' "$row" | sed "s/ID/$1/; s|PUBLIC|$(printf '%s' "$2" | sed 's/[\\&|]/\\&/g')|; s|PRIVATE|$(printf '%s' "$3" | sed 's/[\\&|]/\\&/g')|"; }
{
    put good "$(list stdin)" '"[]"'
    put none '"[]"' '"[]"'
    put kind "$(list files)" '"[]"'
    put packed '"[]"' '"AAAA"'
    put good2 "$(list stdin)" '"[]"' | sed 's/"private_test_cases": "\[\]", //'
} >"$folder/data/livecodebench/test.jsonl"
"$metier" eval livecodebench --data "$folder/data" --questions "$folder/questions" 2>"$folder/err" || fail "rows of both kinds"
[ "$(wc -l <"$folder/questions")" -eq 1 ] || fail "one row can be judged"
said 'task livecodebench: 4 rows of '
said 'line 2: there are no test cases'
said "line 3: public_test_cases: the testtype of case 1 is 'files', and metadata names no function"
said 'line 4: private_test_cases is not what zlib packs'
said "line 5: there is no field 'private_test_cases'"

"$metier" sandbox --check >"$folder/check" 2>&1 || { echo "livecodebench.sh: skipped: no sandbox here"; [ $failed -eq 0 ] && exit 77; exit 1; }

# Verdicts of several answers to each question.
cat >"$folder/answers" <<'END'
{"id": "own_harbour", "answers": ["So:\n```python\ninput()\nprint(sum(map(int, input().split())))\n```", "```python\nprint(10)\n```"]}
{"id": "own_mean", "answers": ["```python\nx = list(map(int, sys.stdin.read().split()[1:]))\nm = sum(x) / len(x)\nprint('%.2f' % m)\nfor v in x:\n    if v > m: print(v)\n```", "print(1)"]}
{"id": "own_plateau", "answers": ["```python\nclass Solution:\n    def longestPlateau(self, heights):\n        best, at = (0, 0), 0\n        for _, run in groupby(heights):\n            length = len(list(run))\n            best = max(best, (at, length), key=lambda p: p[1])\n            at += length\n        return best\n```", "```python\nclass Solution:\n    def longestPlateau(self, heights): return [1, 2]\n```"]}
{"id": "own_greeting", "answers": ["```python\nclass Solution:\n    def greet(self, name, times): return ' '.join(['hello, ' + name] * times)\n```", "```python\ndef greet(name, times): return name\n```"]}
END
"$metier" eval livecodebench --data "$share/samples" --answers "$folder/answers" --samples 2 --pass-k 2 --out "$folder/out" --quiet \
    >"$folder/table" 2>"$folder/err" || { cat "$folder/err"; fail "judging"; }
grep -q 'livecodebench .* pass@1 *0.5000' "$folder/table" && grep -q 'pass@2 *1.0000' "$folder/table" || { cat "$folder/table"; fail "the table"; }
for why in "test 2 of 2: line 1 is '10' instead of '0'" 'no program in the answer' 'test 2 of 5: [1, 2] instead of [0, 1]' \
    "test 1 of 3: 'Ann' instead of 'hello, Ann hello, Ann'"; do
    grep -qF -- "$why" "$folder/out/samples_livecodebench.jsonl" || fail "not in the samples: $why"
done
exit $failed
