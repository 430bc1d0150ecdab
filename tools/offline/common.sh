# What the scripts of the offline root share: where things are kept, and how they speak.
# Sourced by bazelw and tools/offline/run; see docs/internals/offline.md.
# shellcheck shell=bash disable=SC2034

offline_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
project_dir=${offline_dir%/tools/offline}
llvm_bin=/usr/lib/llvm-22/bin

say() { printf 'bazelw: %s\n' "$*" >&2; }

# die MESSAGE...: one line per argument, the last says what to do. The exit status is the one that Bazel has for
# problems of the machine it runs on.
die() {
    local line
    told=1
    for line in "$@"; do say "$line"; done
    exit 36
}

# digest FILE...: a short name for the contents of the files.
digest() {
    local sum
    sum=$(cat -- "$@" | sha256sum)
    printf '%s' "${sum:0:16}"
}

# locate: sets cache and, below it, the folders of this recipe.
locate() {
    local base=${XDG_CACHE_HOME:-}
    if [[ -z $base ]]; then
        [[ -n ${HOME:-} ]] || die "neither XDG_CACHE_HOME nor HOME is set: set one of them; the offline root is cached below it."
        base=$HOME/.cache
    fi
    [[ $base == /* ]] || die "the cache directory $base is not an absolute path: set XDG_CACHE_HOME to an absolute path."
    cache=$base/rules_offload

    local debian_key kit_key
    debian_key=$(digest "$offline_dir"/{packages,debian.sh})
    local -a recipe=("$offline_dir"/{packages,debian.sh,kit.sh,registry.sh,enter.sh,rules_go.patch} "$offline_dir"/rulesets/go.*)
    local -a modules
    shopt -s globstar
    modules=("$offline_dir"/modules/**/*.*)
    shopt -u globstar
    kit_key=$(digest "${recipe[@]}" "${modules[@]}")
    debian=$cache/debian-$debian_key
    kit=$cache/kit-$kit_key
    output_user_root=$cache/bazel-$kit_key
}

# room DIR: the free space there, in MB.
room() { df -Pk -- "$1" | awk 'NR == 2 { print int($4 / 1024) }'; }

# read_go: sets goroot, goroot_inside and the Go settings that repository rules need, in the environment.
read_go() {
    command -v go >/dev/null || die "go is not on PATH." \
        "Install Go 1.26 or newer (https://go.dev/dl) and add its bin directory to PATH."
    local -a values
    # It may say on the way that it fetches the Go of go.mod.
    mapfile -t values < <(cd "$project_dir" && go env GOROOT GOVERSION GOMODCACHE GOPROXY GOSUMDB GOPRIVATE GONOSUMDB GONOPROXY)
    [[ ${#values[@]} -eq 8 && -d ${values[0]} ]] || die "\`go env\` does not work in $project_dir." \
        "Install Go 1.26 or newer (https://go.dev/dl) and add its bin directory to PATH."
    if [[ ${values[1]} =~ ^go1\.([0-9]+) && ${BASH_REMATCH[1]} -lt 26 ]]; then
        die "found Go ${values[1]#go}, but go.mod requires 1.26 or newer." \
            "Install a newer Go (https://go.dev/dl), or set GOTOOLCHAIN=auto to download it."
    fi
    goroot=${values[0]}
    export GOMODCACHE=${values[2]} GOPROXY=${values[3]} GOSUMDB=${values[4]}
    export GOPRIVATE=${values[5]} GONOSUMDB=${values[6]} GONOPROXY=${values[7]}
    # /usr is the root's own, the machine's is seen under /host.
    case $goroot in
        /usr/local/*) goroot_inside=$goroot ;;
        /usr/*) goroot_inside=/host$goroot ;;
        *) goroot_inside=$goroot ;;
    esac
}

# prepared: whether the root and the kit are there.
prepared() { [[ -e $debian/.complete && -e $kit/.complete ]]; }

# ensure_root: prepares the root, unless that has been done.
ensure_root() {
    locate
    read_go
    prepared && return
    # shellcheck source=tools/offline/prepare.sh
    . "$offline_dir/prepare.sh"
    prepare
}

# modules_below FOLDER DIR: prints the folders below FOLDER that the workspace DIR, which is elsewhere, names by local
# paths. Needs registry.sh.
modules_below() {
    local -a files
    local file
    [[ $2/ != "$1"/* ]] || return 0
    module_files "$2"
    for file in "${files[@]}"; do
        [[ $file != "$1"/*/MODULE.bazel ]] || printf '%s\n' "${file%/MODULE.bazel}"
    done
}
