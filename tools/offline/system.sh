# The Bazel of the system: whether there is one that can be used.
# shellcheck shell=bash disable=SC2034,SC2154

# find_system_bazel: sets system_bazel to a bazel or bazelisk on PATH that runs and is 7.6 or newer (see
# bazel_compatibility in MODULE.bazel), or to nothing; why_not then says what was found.
find_system_bazel() {
    local name path version
    system_bazel=
    why_not="neither bazel nor bazelisk is on PATH"
    for name in bazel bazelisk; do
        path=$(type -P "$name") || continue
        [[ $(readlink -f -- "$path") != "$project_dir/bazelw" ]] || continue
        version=$(system_version "$path")
        if [[ $version =~ ^([0-9]+)\.([0-9]+) ]] &&
            ((BASH_REMATCH[1] > 7 || BASH_REMATCH[1] == 7 && BASH_REMATCH[2] >= 6)); then
            system_bazel=$path
            return 0
        fi
        why_not="$path is ${version:+version }${version:-not usable}, expected 7.6 or newer"
    done
    return 1
}

# system_version PATH: prints the version of this Bazel, nothing if it does not run. A bazelisk that can download no
# Bazel does not. The answer is kept, as asking takes a while; "no" is kept for an hour.
system_version() {
    local state answers line version
    state="$(stat -L -c '%n %s %Y' -- "$1") ${USE_BAZEL_VERSION:-} $(cat "$workspace/.bazelversion" 2>/dev/null || true)"
    answers=$cache/system-bazel
    if [[ -f $answers ]]; then
        while IFS= read -r line; do
            if [[ $line == "$state"$'\t'*$'\t'* ]]; then
                version=${line#*$'\t'}
                if [[ ${version%$'\t'*} != none || $((EPOCHSECONDS - ${line##*$'\t'})) -lt 3600 ]]; then
                    version=${version%$'\t'*}
                    [[ $version == none ]] || printf '%s' "$version"
                    return
                fi
            fi
        done < <(tac "$answers")
    fi
    version=$(cd "$workspace" && timeout 60 "$1" --version 2>/dev/null </dev/null | sed -n 's/^bazel \([0-9][^ ]*\).*/\1/p') || version=
    if mkdir -p "$cache" 2>/dev/null; then
        printf '%s\t%s\t%s\n' "$state" "${version:-none}" "$EPOCHSECONDS" >> "$answers"
    fi
    printf '%s' "$version"
}
