#!/bin/bash
# The build installed into a prefix of its own, and used as somebody who has nothing else would: headers, libraries,
# examples, manual pages, completions, the program. Usage: install.sh BUILD CMAKE CC
#
# What libmetier.so shows is src/library/symbols.txt. A function that comes or goes changes that list, and the version
# (docs/library.md): METIER_UPDATE_SYMBOLS=yes tests/cli/install.sh BUILD CMAKE CC writes it anew from the headers.
set -u
build=$1 cmake=$2 cc=$3
here=$(cd "$(dirname "$0")/../.." && pwd)
metier=$build/bin/metier
. "$here/tests/support/expect.sh"
command -v pkg-config >/dev/null || { echo "skipped: pkg-config is not installed"; exit 77; }
P=$place/prefix
strict="-Wall -Wextra -Werror -pedantic"

# try WHAT COMMAND...: counts, and shows what a command that failed said.
try() {
    local what=$1
    shift
    "$@" >"$place/log" 2>&1 </dev/null
    local status=$?
    result $status "$what"
    [ $status -eq 0 ] || tail -n 15 "$place/log"
    return $status
}

try "cmake --install" "$cmake" --install "$build" --prefix "$P" || exit 1
metier=$P/bin/metier
libdir=$(dirname "$(find "$P" -name libmetier.a)")
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
mkdir "$place/elsewhere"
cd "$place/elsewhere" || exit 1

# Nothing in it knows where it was built.
grep -rlF -e "$build" -e "$here" "$P" >"$place/leaks"
result $((1 - $?)) "these name the folder they were built in: $(cat "$place/leaks")"

# ------------------------------------------------------------------ what the library shows

for header in "$P"/include/metier/*.h; do printf '#include "metier/%s"\n' "${header##*/}"; done >all.h
"$cc" -E -P -x c all.h -I"$P/include" | grep -v 'static inline' | grep -oE '\bmt_[a-z0-9_]+ ?\([^*]' |
    sed 's/ *(.*//' | LC_ALL=C sort -u >declared
nm -D --defined-only "$libdir/libmetier.so" | awk '{ print $3 }' | LC_ALL=C sort >shown
[ "${METIER_UPDATE_SYMBOLS:-}" != yes ] || cp declared "$here/src/library/symbols.txt"
[ "$(wc -l <declared)" -gt 100 ]
result $? "fewer than 100 functions found in the headers"
diff "$here/src/library/symbols.txt" declared
result $? "the headers declare other functions than src/library/symbols.txt lists (this file says how to write it anew)"
diff "$here/src/library/symbols.txt" shown
result $? "libmetier.so shows other symbols than src/library/symbols.txt lists"
readelf -d "$libdir/libmetier.so" | grep -qE 'libcairo|libcurl|libmpi|libcu'
result $((1 - $?)) "libmetier.so needs libraries that none of its functions has a use for"

# ------------------------------------------------------------------ headers and examples

for header in "$P"/include/metier/*.h; do
    name=metier/${header##*/}
    printf '#include "%s"\nextern int one;\n' "$name" >one.c
    try "$name alone, as C17" "$cc" -std=c17 $strict -fsyntax-only -I"$P/include" one.c
    try "$name alone, as C++17" "$cc" -x c++ -std=c++17 $strict -fsyntax-only -I"$P/include" one.c
done

flags=$(pkg-config --cflags --libs metier)
model=$P/share/metier/models/tiny-deepseek-v2
for example in finetune generate objective; do
    source=$P/share/doc/metier/examples/$example.c
    try "$example.c as C17" "$cc" -std=c17 $strict "$source" $flags -o "$example"
    try "$example.c as C++17" "$cc" -x c++ -std=c++17 $strict "$source" $flags -o "$example-cc"
done
[ "$(wc -l <"$P/share/doc/metier/examples/finetune.c")" -lt 100 ]
result $? "finetune.c has 100 lines or more"
for kind in "" -cc; do
    try "finetune$kind" ./finetune$kind "$model" "adapter$kind"
    try "objective$kind" ./objective$kind
    try "generate$kind" ./generate$kind "$model" "adapter$kind" '12+30=' '7*6='
    cp "$place/log" "answers$kind"
done
cmp -s adapter/adapter_model.safetensors adapter-cc/adapter_model.safetensors
result $? "C and C++ trained different adapters"
cmp -s answers answers-cc
result $? "C and C++ got different answers"
try "the program has the same answers" "$metier" generate "$model" --adapter adapter --prompt '12+30=' --max-new 20 --template none
grep -qF "$(sed -n 's/^12+30=//p' answers)" "$place/log"
result $? "generate.c and metier generate differ: $(cat answers)"
./finetune "$model" adapter >text 2>&1
[ $? -eq 1 ] && grep -q '^finetune: adapter: ' text
result $? "a folder that is there is written over, or without a sentence: $(cat text)"

# The page's first example is what it prints, and the archive does what the shared library does.
awk '/^```c$/ { inside = 1; next } /^```/ { if (inside) exit } inside' "$here/docs/library.md" >first.c
try "docs/library.md's first example" "$cc" -std=c17 $strict first.c $flags -o first
try "it runs" ./first "$model" adapter-first
grep -q '^saved; loss ' "$place/log"
result $? "docs/library.md's first example says: $(cat "$place/log")"
try "with an rpath, as docs/library.md says" "$cc" -std=c17 $strict first.c $flags \
    -Wl,-rpath,"$(pkg-config --variable=libdir metier)" -o first-rpath
try "it finds the library by itself" env -u LD_LIBRARY_PATH ./first-rpath "$model" adapter-rpath
cp -r "$P" "$place/archive"
rm "$place/archive${libdir#"$P"}"/libmetier.so*
archived=$(PKG_CONFIG_PATH=$place/archive${libdir#"$P"}/pkgconfig pkg-config --static --cflags --libs metier)
try "linked with the archive" "$cc" -std=c17 $strict first.c $archived -o first-static
try "it runs" env -u LD_LIBRARY_PATH ./first-static "$model" adapter-static
cmp -s adapter-first/adapter_model.safetensors adapter-static/adapter_model.safetensors
result $? "archive and shared library trained different adapters"

mkdir package && cp first.c package && cat >package/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(first C)
find_package(metier 0.2 REQUIRED)
foreach(kind metier static)
    add_executable(with_${kind} first.c)
    target_link_libraries(with_${kind} PRIVATE metier::${kind})
endforeach()
END
try "find_package" "$cmake" -S package -B package/build -DCMAKE_PREFIX_PATH="$P" -DCMAKE_C_COMPILER="$cc" &&
    try "built with the package" "$cmake" --build package/build &&
    try "it runs" package/build/with_static "$model" adapter-package
[ "$(pkg-config --modversion metier)" = "$("$metier" --version | sed -n 's/^metier //p')" ]
result $? "pkg-config and the program disagree about the version"

# ------------------------------------------------------------------ manual pages and completions

for verb in $("$metier" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    page=$P/share/man/man1/metier-$verb.1
    grep -q '^.SH OPTIONS' "$page" && grep -qF 'help' "$page"
    result $? "no manual page of $verb"
    for option in $("$metier" "$verb" --help | sed -n 's/^  \(--[a-z-]*\) .*/\1/p'); do
        grep -qF -- "\\fB${option//-/\\-}\\fR" "$page"
        result $? "the manual page of $verb lacks $option"
    done
    ! command -v groff >/dev/null || [ -z "$(groff -k -man -ww -Tutf8 "$page" 2>&1 >/dev/null)" ]
    result $? "groff complains about $page"
done

# completed WORD...: what the shell would offer for the last of them.
completed() {
    bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _metier; echo "${COMPREPLY[*]}"' \
        "$P/share/bash-completion/completions/metier" "$@"
}
[ "$(completed metier tr)" = train ] && [ "$(completed metier train --dr)" = --dry-run ] &&
    [ "$(completed metier help tok)" = tokenize ] && [ -z "$(completed metier train run.y)" ]
result $? "bash completes metier tr, metier train --dr as $(completed metier tr), $(completed metier train --dr)"
[ "$(completed metier train run.yaml method = loss)" = loss-free ] && [ "$(completed "$metier" eval synth_ma)" = synth_math ]
result $? "bash completes method=loss as $(completed metier train run.yaml method = loss), eval gsm8 as $(completed "$metier" eval gsm8)"
for verb in train compare eval recipe; do
    cmp -s "$P/share/metier/schema/$verb.json" <("$metier" "$verb" --schema)
    result $? "no schema of the files of metier $verb"
done
for file in zsh/site-functions/_metier zsh/vendor-completions/_metier fish/vendor_completions.d/metier.fish; do
    shell=${file%%/*}
    grep -q 'dry-run' "$P/share/$file"
    result $? "no completions for $shell: share/$file"
    ! command -v $shell >/dev/null || try "$shell reads its completions" $shell -n "$P/share/$file"
done

# ------------------------------------------------------------------ the program

expect 0 'devices: ref cpu' --version
expect 0 "$P/share/metier" --share
expect 2 "there is no verb 'tran'" help tran
expect 2 '--complete is' help --complete tcsh
try "synth" "$metier" synth --domain math --count 60 --out math.jsonl
printf 'model: %s\nout: run\ndata.path: math.jsonl\n' "$model" >run.yaml
try "metier train from anywhere" env -i "$metier" train run.yaml steps=3 method=metier data.template=alpaca --quiet
[ -s run/adapter/adapter_model.safetensors ]
result $? "no adapter was trained"
try "metier report" env -i "$metier" report run --out run.html
if [ -e "$P/lib/metier/metier_mpi.so" ] && command -v mpirun >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpirun --oversubscribe -n 2 "$metier" synth --show 1 >text 2>&1 </dev/null
    grep -q '2 ranks were started' text
    result $? "the module for MPI is not found: $(cat text)"
fi

# ------------------------------------------------------------------ the package

cpack=$(dirname "$cmake")/cpack
if command -v dpkg-shlibdeps >/dev/null && command -v file >/dev/null && [ -x "$cpack" ]; then
    try "cpack" "$cpack" -G DEB -B "$place/deb" --config "$build/CPackConfig.cmake"
    deb=$(ls "$place"/deb/metier_*.deb)
    for wanted in libc6 libjansson4 libpcre2-8-0 libyaml-0-2 'libg\?omp' libjs-chart.js; do
        dpkg-deb -f "$deb" Depends | grep -q "$wanted"
        result $? "the package does not depend on $wanted: $(dpkg-deb -f "$deb" Depends)"
    done
    dpkg-deb -c "$deb" >contents
    for wanted in ./usr/bin/metier ./usr/share/metier/models/ ./usr/share/man/man1/metier-train.1; do
        grep -q " $wanted" contents
        result $? "the package lacks $wanted"
    done
fi

printf '%d as expected, %d not\n' $passed $failed
[ $failed -eq 0 ]
