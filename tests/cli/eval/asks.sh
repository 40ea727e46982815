#!/bin/sh
# The benchmarks people ask for, on the rows that come along: questions, verdicts and figures. Usage: asks.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
samples=$(dirname "$0")/../../../share/samples
failed=0

fail() { printf 'asks.sh: %s\n' "$*"; failed=1; }

# judge TASK: answers on the standard input; the table goes to $folder/table, results to $folder/TASK.
judge() {
    cat >"$folder/answers"
    "$metier" eval "$1" --data "$samples" --answers "$folder/answers" --out "$folder/$1" --quiet \
        >"$folder/table" 2>"$folder/err"
}

has() { grep -Eq "$1" "$folder/table" || { cat "$folder/table" "$folder/err"; fail "$2"; }; }

# IFEval: a title and no comma; bullets, of which only the loose verdict is right, as the first line is not an answer's;
# too few words; English in lower case and sentences, which nobody here can tell; JSON.
judge ifeval <<'END'
{"id": "1", "answer": "<<Light at sea>>\nA tall tower with a lamp on top."}
{"id": "2", "answer": "- Sure:\n- *rope*\n- *water*\n- a map"}
{"id": "3", "answer": "The KITE is gone."}
{"id": "4", "answer": "rain on the roof\nrain on the road"}
{"id": "5", "answer": "The sea rises. It falls. Twice a day. Ask the moon."}
{"id": "6", "answer": "```json\n{\"colour\": \"blue\", \"sound\": \"hum\"}\n```"}
END
[ $? -eq 0 ] || { cat "$folder/err"; fail "ifeval"; }
has 'prompt_level_strict_acc *0.5000' "two of the four prompts with a verdict, strictly"
has 'prompt_level_loose_acc *0.7500' "three of the four, loosely"
has 'inst_level_strict_acc *0.6667' "six of the nine instructions with a verdict, strictly"
has 'inst_level_loose_acc *0.7778' "seven of nine, loosely"
grep -q 'ifeval: 2 answers have an instruction that only another program can judge' "$folder/err" ||
    { cat "$folder/err"; fail "open instructions are not named"; }
grep -q '"unjudged,none": 2' "$folder/ifeval/results.json" || fail "open answers in the summary"
grep -q '"id": "5".*"strict": \[null, true\]' "$folder/ifeval/samples_ifeval.jsonl" || fail "the verdicts of a sample"
grep _acc "$folder/table" >"$folder/before"
cp "$folder/answers" "$folder/same"
judge ifeval <"$folder/same" || fail "ifeval again"
grep _acc "$folder/table" | diff "$folder/before" - || fail "figures after going on"

# AIME: a box, and a number in words of prose; of MMLU-Redux the rows that are right.
judge aime24 <<'END'
{"id": "own-24-1", "answer": "There are 19, so \\boxed{361}."}
{"id": "own-24-2", "answer": "The remainder is 400."}
END
has 'aime24 .* exact_match *0.5000' "one of two"
judge aime25 <<'END'
{"id": "0", "answer": "<think>24? No.</think> $\\boxed{025}$"}
{"id": "1", "answer": "It is 6 by 6. The perimeter is 24"}
END
has 'aime25 .* exact_match *1.0000' "both of AIME 2025"
judge mmlu_redux_astronomy <<'END'
{"id": "0", "answer": "B"}
{"id": "2", "answer": "Clearly A."}
END
has 'mmlu_redux_astronomy *2 *acc,flexible *0.5000' "the two rows of MMLU-Redux that are right"
has '^ *2 *acc,default *1.0000' "the first capital, which is Clearly's C, as lm-evaluation-harness reads it"
"$metier" eval mmlu_redux_astronomy --data "$samples" --questions "$folder/questions" >"$folder/table" 2>"$folder/err"
grep -q '"prompt": "The following are multiple choice questions (with answers) about astronomy.\\n\\nWhich body' \
    "$folder/questions" || { cat "$folder/questions"; fail "MMLU-Redux's description"; }
judge lm_eval_aime24 <<'END'
{"id": "own-24-1", "answer": "It is 19 times 19, hence $361$."}
{"id": "own-24-2", "answer": "The remainder is 401."}
END
has 'lm_eval_aime24 *2 *exact_match,strict-match *0.5000' "what stands between dollar signs, else the whole"
has '^ *2 *exact_match,flexible-extract *1.0000' "both in prose"

# Choices, asked of a model: every sample has a log-likelihood for each, of WinoGrande and for its own prompt.
"$metier" eval arc hellaswag winogrande truthfulqa --data "$samples" --model "$samples/../models/small-deepseek-v2" \
    --out "$folder/choices" --quiet --no-routing >"$folder/table" 2>"$folder/err" || { cat "$folder/err"; fail "choices"; }
has 'arc_easy *3 *acc ' "ARC easy"
has '^ *3 *acc_norm ' "acc_norm"
has 'arc_challenge *2 *acc ' "ARC challenge"
has 'hellaswag *2 *acc ' "HellaSwag"
has 'winogrande *3 *acc ' "WinoGrande"
has 'truthfulqa_mc1 *2 *acc ' "TruthfulQA mc1"
has 'truthfulqa_mc2 *2 *score ' "TruthfulQA mc2"
grep -q '"prompts": \["Mara lent her umbrella to Ines, so Mara", "Mara lent her umbrella to Ines, so Ines"\]' \
    "$folder/choices/samples_winogrande.jsonl" || fail "WinoGrande's two prompts"
grep -q '"prompt": "Home and Garden: How to move a beehive. Wait for the evening. Bees come home when it gets dark."' \
    "$folder/choices/samples_hellaswag.jsonl" || fail "HellaSwag's text is not cleaned"
"$metier" eval winogrande --data "$samples" --shots 1 --questions "$folder/questions" >"$folder/table" 2>"$folder/err" ||
    { cat "$folder/err"; fail "WinoGrande with an example"; }
grep -q 'because the rope was weaker.\\n\\nThe kite did not fit' "$folder/questions" || { cat "$folder/questions"; fail "an example"; }

exit $failed
