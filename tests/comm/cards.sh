#!/bin/bash
# parallel.transport: nccl, with a stand-in for NCCL on the cpu: the bytes of runs by way of the host, and what fails.
# Usage: cards.sh METIER NCCL_DOUBLE
set -u
metier=$1
double=$2
LAUNCHER=${LAUNCHER:-tcp}
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/comm/launch.sh"
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
"$here/support/train-bench" "$metier" "$place" || exit 1
config=$place/run.yaml

# same RANKS WORDS...: both ways end with the same files and have sent the same bytes.
same() {
    local count=$1
    shift
    rm -rf "$place/host" "$place/cards"
    ranks "$count" "$metier" train "$config" out="$place/host" --quiet "$@" >"$place/text" 2>&1 || cat "$place/text"
    METIER_NCCL=$double ranks "$count" "$metier" train "$config" out="$place/cards" parallel.transport=nccl --quiet "$@" \
        >"$place/text" 2>&1 || cat "$place/text"
    for file in adapter/adapter_model.safetensors model/model.safetensors; do
        [ -e "$place/host/$file" ] || [ -e "$place/cards/$file" ] || continue
        cmp "$place/host/$file" "$place/cards/$file"
        result $? "$count ranks, $*: $file differs"
    done
    local sent
    sent=$(grep -o 'sent sums of [0-9]* bytes, exchanges of [0-9]*,' "$place/host/metrics.jsonl")
    [ -n "$sent" ] && grep -qF "$sent" "$place/cards/metrics.jsonl"
    result $? "$count ranks, $*: the host $sent, cards $(grep -o 'sent sums of .* besides' "$place/cards/metrics.jsonl")"
    grep -qF "from card to card (NCCL)" "$place/cards/metrics.jsonl"
    result $? "$count ranks, $*: the log does not say that cards send"
}

same 2
same 3 batch.examples=5                      # in the last round a rank has nothing to do
same 2 parallel.experts=2
same 4 parallel.experts=2 recompute=full
same 2 train=full method=paper
same 4 train=full parallel.experts=2 method=metier

# refused TEXT WORDS...: two ranks end with a sentence, and not by being killed.
refused() {
    local text=$1
    shift
    rm -rf "$place/none"
    ranks 2 "$metier" train "$config" out="$place/none" --quiet "$@" >"$place/text" 2>&1
    local got=$?
    [ $got -ne 0 ] && [ $got -ne 124 ] && grep -qF -- "$text" "$place/text"
    result $? "$*: exit status $got, not \"$text\" but $(head -n 3 "$place/text")"
}
METIER_NCCL=$place/none.so refused "parallel.transport is nccl: NCCL cannot be loaded" parallel.transport=nccl
METIER_NCCL=$double METIER_DOUBLE_FAILS=20 refused "the connection of the cards failed" parallel.transport=nccl
refused "expected auto|host|nccl" parallel.transport=pigeon

# One rank needs none of it.
METIER_NCCL=$place/none.so "$metier" train "$config" out="$place/alone" parallel.transport=nccl --quiet >/dev/null
result $? "one rank asks for cards and does not run"
exit $failed
