#!/bin/sh
# Verdicts of study 2 on planted cells: what pays, by which mechanism, and none before all seeds are there.
# Usage: study_verdicts.sh STUDY_VERDICTS
set -u
verdicts=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
passed=0
failed=0

# cells FILE OWN MIX SEEDS [UNKNOWN]: aux has own 50 and mix 40, each with a point of noise between seeds; paper OWN and MIX more, the
# controls 2 less. The cell of paper with seed UNKNOWN is not known.
cells() {
    awk -v own="$2" -v mix="$3" -v seeds="$4" -v unknown="${5:-0}" '
        function cell(model, method, seed, own, mix) {
            printf "%s{\"model\": \"%s\", \"method\": \"%s\", \"domain\": \"mix\", \"seed\": %d, \"known\": %s", between, model, method, seed,
                method == "lora-paper" && seed == unknown ? "false}" : "true,"
            between = ",\n"
            if (method == "lora-paper" && seed == unknown) return
            printf "\"figures\": {\"accuracy\": 0.8, \"loss\": 1}, \"accuracy\": {\"code\": 0.7}, \"loss\": {\"science\": 1},"
            printf "\"pruned\": {\"reap_own_25%%\": {\"accuracy\": %.6f}, \"reap_mix_25%%\": {\"accuracy\": %.6f}}}", own / 100, mix / 100
        }
        BEGIN {
            printf "{\"reference\": \"lora-aux\", \"base\": [], \"cells\": [\n"
            for (seed = 11; seed < 11 + seeds; seed++) {
                for (m = 0; m < 2; m++) {
                    model = m ? "qwen3-moe" : "deepseek-v2"
                    noise = (seed * 7 % 5 - 2) / 4
                    cell(model, "lora-aux", seed, 50 - noise, 40 + noise)
                    cell(model, "lora-paper", seed, 50 + own + noise, 40 + mix)
                    cell(model, "lora-aux-k1", seed, 48, 40)
                    cell(model, "lora-pruned", seed, 48 + noise, 40)
                }
            }
            printf "\n]}\n"
        }' >"$folder/$1"
}

# says TEXT FILE...: the page has the text, or, where the program fails, its message.
says() {
    text=$1
    shift
    if "$verdicts" "$@" >"$folder/page" 2>&1; grep -qF -- "$text" "$folder/page"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "study_verdicts.sh: no '$text' in:"
        grep -E 'lora-paper|study_verdicts' "$folder/page"
    fi
}

cells specialised 12 4 6
cells concentrated 12 12 6
cells nothing 0.5 0.5 6
cells between 2 2 6
cells five 12 4 5
cells missing 12 4 6 14
says '- **`lora-paper`: pays, by specialisation**' "$folder/specialised"
says '- **`lora-paper`: pays, by concentration**' "$folder/concentrated"
says '- **`lora-paper`: no payoff**' "$folder/nothing"
says '- **`lora-paper`: open**' "$folder/between"
says '- **`lora-paper`: no verdict yet' "$folder/five"
says '- **`lora-paper`: no verdict yet' "$folder/missing"
says '- **`first-metier`: no verdict yet' "$folder/specialised"
says 'is lora-aux of deepseek-v2 with seed 11 a second time' "$folder/specialised" "$folder/five"
# A control that is not there leaves the mechanism open, and so the verdict.
grep -v lora-pruned "$folder/specialised" | awk '
    { line[NR] = $0 } END { for (i = 1; i <= NR; i++) { if (line[i + 1] ~ /^\]/) sub(/,$/, "", line[i]); print line[i] } }' >"$folder/alone"
says '- **`lora-paper`: no verdict yet' "$folder/alone"
grep -q nan "$folder/page" && failed=$((failed + 1)) && echo "study_verdicts.sh: a table has nan"
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
