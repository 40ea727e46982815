# Sourced by scripts that build, from the repository's root: where nvcc lies, and libraries out of unpacked packages.

# Puts nvcc's folder into PATH, where it is not and nvcc lies where it usually does. Fails if there is none.
find_nvcc() {
    command -v nvcc >/dev/null && return 0
    # The newest of several versions.
    for folder in ${CUDA_HOME:+"$CUDA_HOME/bin"} /usr/local/cuda/bin \
        $(printf '%s\n' /usr/local/cuda-*/bin | sort -rV) /opt/cuda/bin; do
        [ -x "$folder/nvcc" ] || continue
        PATH=$PATH:$folder
        export PATH
        return 0
    done
    return 1
}

# Development links with an absolute target (libz.so has one) lead out of the folder: links to the file itself.
mend_links() {
    rm -rf build/deps-links
    mkdir -p build/deps-links || exit 1
    for link in "$1"/*.so; do
        if [ -e "$link" ] || [ ! -L "$link" ]; then continue; fi
        target=$(basename "$(readlink "$link")")
        mended=build/deps-links/$(basename "$link")
        for folder in "$1" "$METIER_DEPS/lib/x86_64-linux-gnu" /usr/lib/x86_64-linux-gnu /lib/x86_64-linux-gnu; do
            # Another patch level of the library will do: libz.so.1.2.13, or libz.so.1.
            for file in "$folder/$target" "$folder/${target%%.so*}".so.[0-9]; do
                if [ -e "$file" ] && [ ! -e "$mended" ]; then ln -s "$(realpath "$file")" "$mended"; fi
            done
        done
    done
}

# METIER_DEPS=DIR: the libraries' headers are not installed, but lie in DIR, where Debian amd64 packages were unpacked
# (dpkg -x). Compilers, pkg-config and programs that were built then find them there; deps_options is for cmake.
deps_options=
use_deps() {
    [ -n "${METIER_DEPS:-}" ] || return 0
    METIER_DEPS=$(cd "$METIER_DEPS" && pwd) || return 1
    libraries=$METIER_DEPS/usr/lib/x86_64-linux-gnu
    if [ ! -d "$libraries" ]; then
        printf 'metier: METIER_DEPS=%s has no usr/lib/x86_64-linux-gnu\n' "$METIER_DEPS" >&2
        return 1
    fi
    mend_links "$libraries"
    links=$(pwd)/build/deps-links
    runtime=$links:$libraries:$METIER_DEPS/lib/x86_64-linux-gnu
    PATH=$METIER_DEPS/usr/bin:$PATH # pkg-config may be one of the packages
    # The .pc files say prefix=/usr; the sysroot goes before that. It would go before the system's own, too, so
    # that those are not looked at: the folder has to hold all that is needed.
    PKG_CONFIG_SYSROOT_DIR=$METIER_DEPS
    PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$METIER_DEPS/usr/share/pkgconfig
    CMAKE_PREFIX_PATH=$METIER_DEPS/usr
    CMAKE_LIBRARY_PATH=$links:$libraries
    # As system headers, whose warnings are not ours: CPATH would make them errors.
    C_INCLUDE_PATH=$METIER_DEPS/usr/include:$METIER_DEPS/usr/include/x86_64-linux-gnu${C_INCLUDE_PATH:+:$C_INCLUDE_PATH}
    CPLUS_INCLUDE_PATH=$C_INCLUDE_PATH
    LIBRARY_PATH=$runtime${LIBRARY_PATH:+:$LIBRARY_PATH}
    LD_LIBRARY_PATH=$runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export METIER_DEPS PATH PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_LIBDIR CMAKE_PREFIX_PATH CMAKE_LIBRARY_PATH
    export C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH
    deps_options="-DMETIER_UNIT_TESTS=OFF -DMETIER_PICTURES=OFF"
    # There libz.so leads nowhere, and libz.a cannot go into a shared library.
    [ ! -e "$links/libz.so" ] || deps_options="$deps_options -Dpkgcfg_lib_ZLIB_z=$links/libz.so"
}

# METIER_GPU_CARD=86 (80, 89): the GPU passes for a card of that compute capability. No block gets more shared memory than
# there, and the module, in a build folder of its own, has that card's PTX alone, which the driver translates; it keeps what
# it made. Sets build, the folder, and card_options, for cmake.
pass_for_card() {
    build=build/cuda
    card_options=
    [ -n "${METIER_GPU_CARD:-}" ] || return 0
    build=build/cuda-$METIER_GPU_CARD
    card_options=-DMETIER_CUDA_ARCHITECTURES=$METIER_GPU_CARD-virtual
    METIER_CUDA_LEVEL=$METIER_GPU_CARD
    CUDA_CACHE_PATH=$(pwd)/build/gpu-cache
    CUDA_CACHE_MAXSIZE=4294967296
    export METIER_CUDA_LEVEL CUDA_CACHE_PATH CUDA_CACHE_MAXSIZE
}
