# Sourced by tests of the command line, which have set `metier`: a folder of their own, $place, that goes with them, and
# counts of what was as expected.
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
failed=0
passed=0

# fail TEXT...: counts, and complains.
fail() {
    printf 'FAIL %s\n' "$*"
    failed=$((failed + 1))
}

# result OK TEXT...: counts; complains unless OK is 0.
result() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        shift
        fail "$@"
    fi
}

# expect STATUS TEXT ARGUMENTS...: the program's exit status, and a text on either stream, which stay in $place/text.
expect() {
    expected_status=$1
    expected_text=$2
    shift 2
    "$metier" "$@" >"$place/text" 2>&1 </dev/null
    expect_got=$?
    if [ $expect_got -eq "$expected_status" ] && grep -qF -- "$expected_text" "$place/text"; then
        passed=$((passed + 1))
    else
        fail "metier $*: exit status $expect_got, expected $expected_status and \"$expected_text\""
        cat "$place/text"
    fi
}

# until_files COUNT PROCESS: until $place/killed holds so many files, or the process that writes them has ended.
until_files() {
    while [ "$(find "$place/killed" -type f 2>/dev/null | wc -l)" -lt "$1" ] && kill -0 "$2" 2>/dev/null; do sleep 0.01; done
}

# same A B [WHAT]: two files of $place have the same bytes; differ: they have not.
same() {
    cmp -s "$place/$1" "$place/$2"
    result $? "${3:+$3: }$1 and $2 differ"
}

differ() {
    ! cmp -s "$place/$1" "$place/$2"
    result $? "${3:+$3: }$1 and $2 are the same"
}
