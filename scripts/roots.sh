# Sourced by scripts that build, install and use metier on fresh Debian systems (scripts/debian-root).
# They set `folder`, where logs go.

# part NAME COMMAND...: shows its seconds; its output goes to NAME.log.
part() {
    local name=$1 start=$SECONDS
    shift
    "$@" >"$folder/$name.log" 2>&1 </dev/null || {
        tail -n 15 "$folder/$name.log" >&2
        printf '%s: %s failed; its whole output is %s\n' "$(basename "$0")" "$name" "$folder/$name.log" >&2
        exit 1
    }
    printf '%5d s  %s\n' $((SECONDS - start)) "$name"
}

# in_root KIND ROOT FUNCTION [NAME=VALUE...]: runs a function in the root, and shows its commands. KIND is an option of
# scripts/debian-root, or empty.
in_root() {
    local kind=$1 root=$2 function=$3 level=
    shift 3
    # emulated, the kernels of level bf16 take several times as long
    [ -z "$kind" ] || [ "$(uname -m)" = aarch64 ] || level=METIER_CPU_LEVEL=neon
    scripts/debian-root ${kind:+"$kind"} "$root" env ${level:+"$level"} "$@" bash -euxc "$(declare -f); $function"
}

# Without recommended packages: the package's dependencies have to be enough.
install_package() {
    apt-get update
    apt-get install -y --no-install-recommends /root/metier_*.deb
    useradd --create-home somebody
}

use_package() {
    runuser -u somebody -- env HOME=/home/somebody bash -euxc "$(declare -f as_somebody); as_somebody"
}

# README's first commands, by a user who has only the package.
as_somebody() {
    cd "$HOME"
    metier --version
    metier devices
    ln -s "$(metier --share)" share
    metier synth --domain math --count 2000 --out math.jsonl
    for model in tiny-deepseek-v2 small-deepseek-v2; do
        printf 'model: share/models/%s\nout: runs/%s\ndata.path: math.jsonl\n' $model $model >$model.yaml
        metier train $model.yaml method=metier steps=5
        test -s runs/$model/adapter/adapter_model.safetensors
        metier generate share/models/$model --adapter runs/$model/adapter --prompt '12+30=' --max-new 20
    done
    metier report runs/tiny-deepseek-v2 --out report.html
    for verb in $(metier --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        test -s "/usr/share/man/man1/metier-$verb.1"
    done
    # shellcheck disable=SC1091
    . /usr/share/bash-completion/completions/metier
    COMP_WORDS=(metier tr) COMP_CWORD=1
    _metier
    test "${COMPREPLY[*]}" = train
    test -s /usr/share/zsh/vendor-completions/_metier
    test -s /usr/share/fish/vendor_completions.d/metier.fish
}
