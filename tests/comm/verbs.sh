#!/bin/bash
# Every verb under mpirun: it shares its work (train, eval, analyze, compare: tested apart), each rank answers for itself, or it is
# refused in one sentence, with a status that is not 0 and nothing written. Usage: verbs.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/comm/launch.sh"
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
"$here/support/train-bench" "$metier" "$place" || exit 1
mkdir "$place/empty"
cd "$place/empty" || exit 1

verbs=$("$metier" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
refused=0
for verb in $verbs; do
    # What each verb would do at once if it were let.
    case $verb in
    train | eval | analyze | compare) continue ;;
    launch) continue ;; # a launcher of its own: starts.sh
    devices)
        ranks 2 "$metier" devices >"$place/text" 2>&1
        result $? "devices"
        [ "$(grep -c '^cpu ' "$place/text")" -eq 2 ]
        result $? "devices: not each rank tells what it sees"
        continue
        ;;
    generate) set -- "$place/model" --prompt x --max-new 2 ;;
    init) set -- --config "$place/config.json" --out new ;;
    synth) set -- --count 10 --out rows.jsonl ;;
    tokenize) set -- "$place/model" --file "$place/run.yaml" ;;
    *) set -- "$place/model" ;;
    esac
    ranks 2 "$metier" "$verb" "$@" >"$place/text" 2>&1
    got=$?
    [ $got -ne 0 ] && [ $got -ne 124 ] && [ $got -ne 137 ] && [ "$(grep -c "^metier $verb: .*without mpirun" "$place/text")" -eq 1 ]
    result $? "$verb: exit status $got: $(head -n 3 "$place/text")"
    refused=$((refused + 1))
done
[ $refused -ge 14 ]
result $? "only $refused verbs were tried: $verbs"
[ -z "$(ls)" ]
result $? "a verb that was refused left $(ls)"
ranks 1 "$metier" inspect "$place/model" >"$place/text" 2>&1
result $? "one rank is one program: $(head -n 3 "$place/text")"
exit $failed
