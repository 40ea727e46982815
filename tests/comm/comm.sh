#!/bin/bash
# Ranks talking to each other under mpirun. Usage: comm.sh RANKS NCCL_DOUBLE
set -u
program=$1
double=$2
. "$(dirname "$0")/launch.sh"
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT

# expect STATUS TEXT N ARGUMENTS...: 0 or not 0, a text among what is printed, and an end in time.
expect() {
    local status=$1 text=$2 count=$3
    shift 3
    ranks "$count" "$program" "$@" >"$place/text" 2>&1
    local got=$?
    [ $got -ne 0 ] && [ $got -lt 124 ] && got=1
    # Killed: 128 and the signal. A time limit is no such end.
    [ $got -gt 128 ] && got=1
    if [ $got -ne "$status" ] || ! grep -qF -- "$text" <(cat "$place/text"; echo); then
        cat "$place/text"
        printf 'FAIL %s ranks, %s: exit status %s, expected %s and "%s"\n' "$count" "$*" "$got" "$status" "$text"
        failed=1
    fi
}

for count in 1 2 3 4; do
    expect 0 "" "$count"
    expect 0 "" "$count" agree 0
    expect 0 "" "$count" pulse 0
done
# Cards, as a stand-in of NCCL has them; what is broken, and what cannot be loaded.
for count in 1 2 3 4; do METIER_NCCL=$double expect 0 "" "$count"; done
METIER_NCCL=$double METIER_DOUBLE_FAILS=1 expect 1 "of 3: the connection of the cards failed: remote process exited" 3
METIER_NCCL=$place/none expect 1 "NCCL cannot be loaded" 2
expect 0 "" 4 agree 2
expect 0 "" 4 pulse 2
expect 1 "rank 1 of 2: a number is none" 2 abort 1
expect 1 "rank 0 of 4: a number is none" 4 abort 0
expect 1 "Killed" 4 die 3
METIER_RANK_TIMEOUT=$silence
export METIER_RANK_TIMEOUT
expect 1 "rank 0 of 2: rank 1 has not been heard of" 2 stop 1
expect 1 "rank 1 of 4: rank 0 has not been heard of" 4 stop 0

# Without a launcher one rank, and MPI is not even loaded.
"$program" || failed=1
LD_DEBUG=files "$program" 2>&1 | grep -q libmpi && { echo "FAIL alone, but MPI was loaded"; failed=1; }
exit $failed
