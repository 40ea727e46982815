#!/bin/bash
# One rank that sends to itself, with a stand-in for NCCL on the cpu: what one_card, card_step and card_speed do.
# Usage: one_card.sh ONE_CARD CARD_STEP CARD_SPEED NCCL_DOUBLE
set -u
one_card=$1
card_step=$2
card_speed=$3
double=$4
config=$(cd "$(dirname "$0")/../.." && pwd)/share/models/tiny-deepseek-v2/config.json
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
failed=0

# says STATUS TEXT COMMAND...
says() {
    local status=$1 text=$2
    shift 2
    "$@" >"$place/text" 2>&1
    local got=$?
    [ $got -eq "$status" ] && grep -qF -- "$text" "$place/text" && return
    printf 'FAIL %s: exit status %s, expected %s and "%s"\n' "$*" $got "$status" "$text"
    cat "$place/text"
    failed=1
}
export METIER_NCCL=$double
says 0 "one_card: all is well" "$one_card" cpu
says 0 "16384 " "$card_speed" cpu 16384
says 0 "of gradients, the same when sent" "$card_step" cpu "$config" "$place" 256 64 4 2
METIER_DOUBLE_LINK=1 says 0 "rank 0 of 8" "$card_step" cpu "$config" "$place" 256 64 4 2
METIER_NCCL=$place/none says 1 "one_card: NCCL cannot be loaded: " "$one_card" cpu
METIER_NCCL=$place/none says 1 "card_step: NCCL cannot be loaded: " "$card_step" cpu "$config" "$place" 256 64 4 2
exit $failed
