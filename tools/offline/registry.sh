# A Bazel registry in a folder: every module that the offline root has, under whichever versions are asked for.
# shellcheck shell=bash
#
#   registry/bazel_registry.json
#   registry/modules/NAME/VERSION/{MODULE.bazel,source.json}      what Bazel reads
#   registry/base/NAME/{MODULE.bazel,source.json}                 the module without its version
#
# There is one copy of each module. A version that anybody asks for is that copy under this version, so Bazel's
# version resolution works as with a real registry and never fails for a version that is not here.

# module_of FILE: prints "NAME VERSION REPO_NAME" of a MODULE.bazel file, "-" for what it does not say.
# deps_of FILE...: prints "NAME VERSION" for each bazel_dep that is not a dev_dependency; all_deps_of for each.
# paths_of FILE...: prints the path of each local_path_override.
# shellcheck disable=SC2016
read_calls='
function attr(call, name,   s) {
    if (!match(call, "[(, \t]" name "[ \t]*=[ \t]*\"[^\"]*\"")) return "-"
    s = substr(call, RSTART, RLENGTH); sub(/^[^"]*"/, "", s); sub(/"$/, "", s)
    return s == "" ? "-" : s
}
{ sub(/^[ \t]*#.*/, ""); sub(/[ \t]#[^"]*$/, ""); text = text " " $0 }
END {
    while (match(text, /(^|[^a-z_])(bazel_dep|module|local_path_override)[ \t]*\([^)]*\)/)) {
        call = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
        if (call ~ /local_path_override/) { if (want == "paths") print attr(call, "path") }
        else if (call ~ /bazel_dep/) {
            if (want == "deps" && (dev || call !~ /dev_dependency[ \t]*=[ \t]*True/)) print attr(call, "name"), attr(call, "version")
        } else if (want == "module") print attr(call, "name"), attr(call, "version"), attr(call, "repo_name")
    }
}'
module_of() { awk -v want=module "$read_calls" "$1"; }
deps_of() { awk -v want=deps "$read_calls" "$@"; }
all_deps_of() { awk -v want=deps -v dev=1 "$read_calls" "$@"; }
paths_of() { awk -v want=paths "$read_calls" "$@"; }

# add_base REGISTRY NAME FILE PATH: makes the module of the MODULE.bazel file FILE known; its sources are at PATH.
add_base() {
    local base=$1/base/$2 name version repo_name
    read -r name version repo_name < <(module_of "$3") || true
    [[ ${name:-} == "$2" ]] || die "$3 is of module ${name:-without a name}, expected $2: the offline recipe is out of date."
    mkdir -p "$base"
    {
        printf 'module(name = "%s", version = "@VERSION@"' "$2"
        [[ $repo_name == - ]] || printf ', repo_name = "%s"' "$repo_name"
        printf ')\n'
        # The call of module() goes: its compatibility level would keep versions apart that are one copy here.
        awk '!done && /^module\(/ { inside = 1 } !inside { print } inside && /\)[ \t]*$/ { inside = 0; done = 1 }' "$3"
    } > "$base/MODULE.bazel"
    printf '{"type": "local_path", "path": "%s"}\n' "$4" > "$base/source.json"
    [[ $version == - ]] && version=0.0.0
    add_version "$1" "$2" "$version"
}

# add_version REGISTRY NAME VERSION: puts the module under this version into the registry, if it is a module we have.
add_version() {
    local base=$1/base/$2 entry=$1/modules/$2/$3 new
    [[ -d $base && ! -d $entry && $3 != - && $3 != *[!0-9A-Za-z.+-]* ]] || return 0
    mkdir -p "${entry%/*}"
    new=$(mktemp -d "$1/.new-XXXXXX")
    sed "s/@VERSION@/$3/" "$base/MODULE.bazel" > "$new/MODULE.bazel"
    cp "$base/source.json" "$new/"
    chmod 755 "$new"
    # Another bazelw can have been faster.
    mv -T "$new" "$entry" 2>/dev/null || rm -rf "$new"
}

# add_wanted REGISTRY FILE...: adds what the workspaces of these MODULE.bazel files ask for.
add_wanted() {
    local registry=$1 name version
    shift
    while read -r name version; do
        add_version "$registry" "$name" "$version"
    done < <(all_deps_of "$@")
}

# module_files DIR...: sets files to the MODULE.bazel files of these workspaces and of those they name by local paths.
module_files() {
    local -A seen=()
    local -a queue=("$@")
    local dir path file
    files=()
    while [[ ${#queue[@]} -gt 0 ]]; do
        dir=${queue[0]}
        queue=("${queue[@]:1}")
        dir=$(cd -- "$dir" 2>/dev/null && pwd -P) || continue
        [[ -z ${seen[$dir]:-} && -f $dir/MODULE.bazel ]] || continue
        seen[$dir]=1
        for file in "$dir"/MODULE.bazel "$dir"/*.MODULE.bazel; do
            [[ -f $file ]] && files+=("$file")
        done
        while read -r path; do
            [[ $path == /* ]] || path=$dir/$path
            queue+=("$path")
        done < <(paths_of "$dir/MODULE.bazel")
    done
}
