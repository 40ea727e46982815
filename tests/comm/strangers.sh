#!/bin/bash
# Who else may come to the port where ranks meet: strangers in every form disturb nobody, and ranks that do not belong together
# are told why. Usage: strangers.sh RANKS STRANGERS
set -u
program=$1
strangers=$2
LAUNCHER=tcp . "$(dirname "$0")/launch.sh"
place=$(mktemp -d) || exit 1
others=()
trap '[ ${#others[@]} -gt 0 ] && kill "${others[@]}" 2>/dev/null; rm -rf "$place"' EXIT
export MASTER_ADDR=127.0.0.1 METIER_TOKEN=0123456789abcdef
export MASTER_PORT=$((10000 + $$ % 22000))
listens() { grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X $MASTER_PORT) .* 0A " /proc/net/tcp; }

# rank R SIZE WORDS...: one of them in the foreground, what it says in $place/R.
rank() {
    local number=$1 size=$2
    shift 2
    in_time env RANK="$number" WORLD_SIZE="$size" "$@" "$program" >"$place/$number" 2>&1
}

# first SIZE WORDS...: rank 0 in the background, until it listens.
first() {
    MASTER_PORT=$((MASTER_PORT + 1)) # of one job each: the last one's may still be closing
    rank 0 "$@" &
    job=$!
    until_true $job listens
}

# says NUMBER STATUS TEXT: how a rank ended, with which sentence.
says() {
    [ "$2" -eq 1 ] && [ "$(wc -l <"$place/$1")" -eq 1 ] && grep -q "^$3" "$place/$1"
    result $? "rank $1: exit status $2, expected '$3': $(head -n 5 "$place/$1")"
}

# Very many of each kind, all there before the ranks are; then the job is as if nobody was.
for kind in garbage silent slow; do
    first 3
    if [ $kind = garbage ]; then
        "$strangers" garbage "$MASTER_PORT" 1000
        result $? "no strangers could come"
    else
        count=1000
        [ $kind = slow ] && count=200
        "$strangers" $kind "$MASTER_PORT" $count >"$place/strangers" &
        others+=($!)
        until_true $! grep -q here "$place/strangers"
    fi
    rank 2 3 &
    second=$!
    rank 1 3
    result $? "$kind strangers: rank 1: $(cat "$place/1")"
    wait $second
    result $? "$kind strangers: rank 2: $(cat "$place/2")"
    wait $job
    result $? "$kind strangers: rank 0: $(cat "$place/0")"
done

# Ranks with another token, another size, a number that is taken: each is told, and the job waits for the right ones.
first 3
rank 1 3 METIER_TOKEN=0123456789abcdeg
says 1 $? 'rank 0 did not accept the METIER_TOKEN of rank 1'
rank 1 3 METIER_TOKEN=
says 1 $? 'rank 0 did not accept the METIER_TOKEN of rank 1'
rank 1 4
says 1 $? 'WORLD_SIZE is 4 for rank 1, and 3 for rank 0'
[ "$("$strangers" build "$MASTER_PORT")" = refused ]
result $? "another build was let in"
rank 1 3 &
second=$!
there() { [ "$(grep -ci " 0100007F:$(printf %04X $MASTER_PORT) 01 " /proc/net/tcp)" -gt 0 ]; }
until_true $second there
sleep 0.2 # it says hello; whichever of the two is first, the other is told
cp "$place/1" "$place/kept"
in_time env RANK=1 WORLD_SIZE=3 "$program" >"$place/twice" 2>&1
got=$?
rank 2 3
result $? "rank 2: $(cat "$place/2")"
wait $second
got="$got $?"
{ [ "$got" = "1 0" ] || [ "$got" = "0 1" ]; } && cat "$place/twice" "$place/1" | grep -q '^there is a rank 1 already'
result $? "two ranks 1: exit statuses $got: $(cat "$place/twice" "$place/1")"
wait $job
result $? "rank 0, after those who do not belong: $(cat "$place/0")"

# A port that is in use; ranks that never come, and why.
first 2 METIER_RANK_TIMEOUT=2
in_time env RANK=0 WORLD_SIZE=2 "$program" >"$place/0b" 2>&1
[ $? -eq 1 ] && grep -q "^rank 0 cannot listen at port $MASTER_PORT for the other ranks: Address already in use" "$place/0b"
result $? "a port in use: $(cat "$place/0b")"
rank 1 2 METIER_TOKEN=0123456789abcdeg
wait $job
says 0 $? 'rank 0 of 2 waited 2 seconds in vain for: rank 1 (METIER_RANK_TIMEOUT); 1 connections did not know'
first 2 METIER_RANK_TIMEOUT=2
rank 1 4
wait $job
says 0 $? 'rank 0 of 2 waited 2 seconds in vain for: rank 1 (METIER_RANK_TIMEOUT); refused: rank 1 of 4 .* was told another WORLD_SIZE'
MASTER_PORT=$((MASTER_PORT + 1))
rank 1 2 METIER_RANK_TIMEOUT=1
says 1 $? "rank 1 did not reach rank 0 at 127.0.0.1 port $MASTER_PORT in 1 seconds (METIER_RANK_TIMEOUT): Connection refused"

# Somebody else where rank 0 should be.
for how in 0 1 2 3 4; do
    MASTER_PORT=$((MASTER_PORT + 1))
    "$strangers" impostor "$MASTER_PORT" $how >"$place/strangers" &
    others+=($!)
    until_true $! grep -q here "$place/strangers"
    rank 1 2 METIER_RANK_TIMEOUT=1
    got=$?
    case $how in
    0) says 1 $got 'what answers in the place of rank 0 is no metier of this version' ;;
    3) says 1 $got 'rank 0 did not accept the METIER_TOKEN of rank 1, or does not know it' ;;
    4) says 1 $got 'rank 1 did not reach rank 0 .*: rank 0 ' ;; # whatever the last try saw
    *) says 1 $got 'rank 1 did not reach rank 0 .*: rank 0 was silent' ;;
    esac
done
exit $failed
