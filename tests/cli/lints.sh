#!/bin/sh
# scripts/lint-words and scripts/lint-docs find what is planted in a small repository, and nothing else. Usage: lints.sh
set -u
scripts=$(cd "$(dirname "$0")/../../scripts" && pwd)
command -v git >/dev/null || { echo "skipped: there is no git" && exit 77; }
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
failures=0
fail() {
    printf 'FAIL %s\n' "$*"
    failures=$((failures + 1))
}
mkdir -p "$place/scripts" "$place/docs/lab" "$place/src"
cp "$scripts/lint-words" "$scripts/lint-docs" "$scripts/words.txt" "$place/scripts/"
cd "$place" && git init -q . || exit 1

# expect STATUS TEXT COMMAND...: its exit status, and a text that it prints.
expect() {
    status=$1 text=$2
    shift 2
    "$@" >printed 2>&1
    found=$?
    [ $found -eq "$status" ] || fail "$*: exit status $found instead of $status: $(cat printed)"
    [ -z "$text" ] || grep -qF -- "$text" printed || fail "$*: no '$text' in: $(cat printed)"
}

echo 'metier trains models. `docs/guide.md` says how; see [this part](docs/guide.md#part), `docs/*.md` and `src/NAME.c`.' >README.md
echo 'Next to the page: `guide.md`. Code may say `anew`.' >docs/guide.md
printf 'const char *a = "fails"; // of a dear word\n' >src/a.c
git add . && expect 0 '' scripts/lint-words && expect 0 '' scripts/lint-docs

# Every word of the list is found in a page and in a message, by an example that its pattern matches.
for example in 'It is dear.' 'Run it anew.' 'another than this' 'so many rows' 'It stands beside it.' 'whoever asks' \
    'no more rows than 3' 'needs the clone no more' 'the router hears of it' 'it knows nothing of it' 'these are none of them' \
    'a step that is none' 'steps that are none' 'Else nothing is left.' 'to tell it from chance' 'it lies in a folder' \
    'experts are to differ' 'parts thereof' 'the place wherein'; do
    echo "$example" >docs/planted.md
    expect 1 'docs/planted.md:1: ' scripts/lint-words docs/planted.md
    printf '%s\n' "$example" >>examples
    printf 'fail("%s");\n' "$example" >src/planted.c
    expect 1 'src/planted.c:1: ' scripts/lint-words src/planted.c
done
patterns=$(grep -cv '^#' scripts/words.txt)
[ "$(wc -l <examples)" -eq "$patterns" ] || fail "$patterns patterns in words.txt, $(wc -l <examples) examples here"
rm docs/planted.md src/planted.c

echo '`src/gone.c`, [this](docs/gone.md#part) and `docs/z*.md`' >docs/planted.md
for name in src/gone.c docs/gone.md 'docs/z*.md'; do
    expect 1 "docs/planted.md:1: there is no $name" scripts/lint-docs docs/planted.md
done
rm docs/planted.md

yes 'word' | head -n 49990 >docs/long.md
expect 0 '' scripts/lint-docs
yes 'word' | head -n 20 >>docs/long.md
expect 1 'the limit is 50000' scripts/lint-docs
mv docs/long.md docs/lab/
expect 0 '' scripts/lint-docs
yes '' | head -n 150 >>README.md
expect 1 'README.md has 151 lines, the limit is 150' scripts/lint-docs

[ $failures -eq 0 ] && echo "every planted word, link and length is found"
[ $failures -eq 0 ]
