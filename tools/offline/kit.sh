# The kit: what Bazel needs beside Debian's packages. Rulesets from the Go module proxy, the few modules of ours,
# the registry with all of them, and the system rc file. Inside the root it is /kit.
# shellcheck shell=bash disable=SC2154

# make_kit DIR: fills a new folder.
make_kit() {
    local dir=$1 name version path file
    mkdir -p "$dir/modules" "$dir/registry/modules"
    fetch_rulesets "$dir/modules"
    cp -r "$offline_dir/modules/." "$dir/modules/"
    # They have no BUILD files here, or they would be packages of this workspace.
    for path in "$offline_dir"/modules/*/ "$offline_dir"/modules/*/*/; do
        touch "$dir/${path#"$offline_dir/"}BUILD.bazel"
    done
    echo '{}' > "$dir/registry/bazel_registry.json"

    for path in "$debian"/usr/share/bazel/{tools,rules}/*/MODULE.bazel; do
        path=${path%/MODULE.bazel}
        read -r name _ < <(module_of "$path/MODULE.bazel")
        add_base "$dir/registry" "$name" "$path/MODULE.bazel" "${path#"$debian"}"
    done
    for path in "$dir"/modules/*; do
        add_base "$dir/registry" "${path##*/}" "$path/MODULE.bazel" "/kit/modules/${path##*/}"
    done
    for file in "$debian/usr/share/bazel/embedded_tools/MODULE.bazel" "$dir"/registry/base/*/MODULE.bazel; do
        while read -r name version; do
            add_version "$dir/registry" "$name" "$version"
        done < <(deps_of "$file")
    done
    # Bazel's own local_config_platform asks for this one; no file says so.
    add_version "$dir/registry" platforms 0.0.7
    write_rc > "$dir/bazelrc"
}

# fetch_rulesets DIR: rules_go and gazelle, from their Go modules. A Go module is not a git checkout: there are no
# executable files, and gazelle's own vendor folder, from which it builds its first tools, is empty.
fetch_rulesets() {
    local dir=$1 name module from log=$cache/go.log
    for name in rules_go gazelle; do
        case $name in
            rules_go) module=github.com/bazelbuild/rules_go ;;
            gazelle) module=github.com/bazelbuild/bazel-gazelle ;;
        esac
        from=$( (cd "$offline_dir/rulesets" && GOWORK=off GOFLAGS=-mod=mod go mod download -json "$module") 2>"$log" |
            sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p') || true
        [[ -d $from ]] || go_failed "$module" "$log"
        mkdir -p "$dir/$name"
        cp -r "$from/." "$dir/$name/"
        chmod -R u+w "$dir/$name"
    done
    find "$dir/rules_go" -name '*.sh' -exec chmod +x {} +
    (cd "$dir/rules_go" && GIT_CEILING_DIRECTORIES=$dir git apply --whitespace=nowarn "$offline_dir/rules_go.patch") ||
        die "tools/offline/rules_go.patch does not fit rules_go: the offline recipe is out of date."
    rm -rf "$dir/gazelle/tests"
    (cd "$dir/gazelle" && GOWORK=off GOFLAGS=-mod=mod go mod vendor -e) >"$log" 2>&1 || go_failed "gazelle's dependencies" "$log"
    [[ -d $dir/gazelle/vendor/golang.org ]] || go_failed "gazelle's dependencies" "$log"
}

go_failed() {
    say "the Go module proxy did not give $1:"
    tail -n 5 "$2" | sed 's/^/    /' >&2
    if grep -q 'no space left on device' "$2"; then
        disk_full
    fi
    die "GOPROXY is ${GOPROXY:-not set}. Set it to a proxy that this machine can reach (go env -w GOPROXY=URL), then call bazelw again."
}

# write_rc: takes the place of Debian's /etc/bazel/bazelrc.
write_rc() {
    cat <<'RC'
startup --install_base=/usr/share/bazel
startup --trust_install_base
# All modules come from the kit, and from nowhere else.
common --registry=file:///kit/registry
common --noenable_workspace
common --lockfile_mode=off
common --check_direct_dependencies=off
# Modules of Go are shared with the machine.
common --repo_env=GO_REPOSITORY_USE_HOST_MODCACHE=1
RC
}
