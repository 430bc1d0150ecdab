# Prepares the offline root, once. Every step leaves a folder under its final name only when it is complete, so a
# preparation that was interrupted starts again at the step where it stood.
# shellcheck shell=bash disable=SC2154

# shellcheck source=tools/offline/debian.sh
. "$offline_dir/debian.sh"
# shellcheck source=tools/offline/kit.sh
. "$offline_dir/kit.sh"

prepare() {
    mkdir -p "$cache" 2>/dev/null || true
    [[ -d $cache && -w $cache ]] || die "the cache directory $cache is not writable. Set XDG_CACHE_HOME to a writable directory with 6 GB of free space."
    local lock
    exec {lock}>"$cache/lock"
    if ! flock -n "$lock"; then
        say "waiting for another bazelw, which is preparing the root"
        until flock -w 15 "$lock"; do
            say "      still waiting; its current step: $(<"$cache/at")"
        done
    fi
    if prepared; then
        exec {lock}>&-
        return
    fi

    local start=$SECONDS
    trap explain EXIT
    say "preparing Bazel and its tools below $cache, once (about 2 minutes, 2.5 GB)"
    step 1 "checking this machine"
    check_machine
    if [[ -e $debian/.complete ]]; then
        step 2 "Debian is already prepared"
    else
        find_mirror
        choose_suite
        step 2 "Debian $suite with Bazel, LLVM and buildbox"
        begin "$debian"
        make_debian "$debian.partial"
        # The folder gets its name when its files are on the disk.
        sync -f "$debian.partial"
        touch "$debian.partial/.complete"
        mv -T "$debian.partial" "$debian"
    fi
    step 3 "rules_go and gazelle from the Go module proxy, and the registry of all modules"
    begin "$kit"
    make_kit "$kit.partial"
    mv -T "$kit.partial" "$kit"
    step 4 "trying it"
    try_root
    touch "$kit/.complete"
    say "ready after $((SECONDS - start)) s"
    trap - EXIT
    exec {lock}>&-
    local old left=
    for old in "$cache"/{debian,kit,bazel}-*; do
        case $old in
            "$debian" | "$kit" | "$output_user_root" | *'*') ;;
            *) left+=" ${old##*/}" ;;
        esac
    done
    [[ -z $left ]] || say "      roots of earlier recipes, which can be deleted (see docs/internals/offline.md):$left"
}

step() {
    say "[$1/4] $2 ($((SECONDS - start)) s)"
    printf '[%s/4] %s\n' "$1" "$2" > "$cache/at"
}

# explain: on the way out, unless the reason has been told.
explain() {
    local status=$?
    trap - EXIT
    [[ $status -ne 0 && -z ${told:-} ]] || return 0
    if [[ $(room "$cache") -lt 100 ]]; then
        disk_full
    fi
    say "the preparation stopped at $(<"$cache/at"); the next call continues there."
    exit "$status"
}

# begin DIR: removes what is half done, of any recipe. Files of Go modules come without permission to write.
begin() {
    chmod -R u+w "$cache"/*.partial 2>/dev/null || true
    rm -rf --one-file-system "$cache"/*.partial "${1:?}"
}

# check_machine: everything that would fail later, said before anything is downloaded.
check_machine() {
    local -a missing=()
    [[ $(uname -sm) == "Linux x86_64" ]] || die "found $(uname -sm), but the prepared Bazel requires Linux x86_64." \
        "Install Bazel 7.6 or newer, or bazelisk, and call bazelw again."
    command -v curl >/dev/null || die "curl is not on PATH. Install it: apt-get install curl"
    command -v git >/dev/null || die "git is not on PATH. Install it: apt-get install git"
    command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
    command -v bwrap >/dev/null || missing+=(bubblewrap)
    if [[ $(id -u) -ne 0 ]]; then
        command -v newuidmap >/dev/null || missing+=(uidmap)
    fi
    if [[ ${#missing[@]} -gt 0 ]]; then
        [[ $(id -u) -eq 0 ]] || die "the preparation requires ${missing[*]}. As root, once: apt-get install ${missing[*]}"
        install_packages "${missing[@]}"
    fi
    if [[ ! -e $debian/.complete && $(room "$cache") -lt 3500 ]]; then
        disk_full
    fi
    if [[ $(id -u) -ne 0 ]]; then
        if [[ ! -e $debian/.complete && $(room "${TMPDIR:-/tmp}") -lt 2500 ]]; then
            die "not enough free space in ${TMPDIR:-/tmp}: unpacking Debian temporarily requires 2.5 GB there." \
                "Free space, or set TMPDIR to a directory on a larger disk that all users can enter."
        fi
        local user
        user=$(id -un)
        if ! grep -qs "^$user:" /etc/subuid || ! grep -qs "^$user:" /etc/subgid; then
            die "$user has no subordinate ids, which Debian's installer requires. As root, once:" \
                "    usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $user"
        fi
    fi
    bwrap --ro-bind / / --dev-bind /dev /dev true 2>"$cache/bwrap.log" || {
        sed 's/^/    /' "$cache/bwrap.log" >&2
        namespaces_refused
    }
}

install_packages() {
    say "      installing $*"
    local log=$cache/apt.log
    command -v apt-get >/dev/null || die "the preparation requires $*, and apt-get is missing: install them with the package manager of this system."
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 || {
        tail -n 5 "$log" | sed 's/^/    /' >&2
        die "apt-get could not install $*: install them, then call bazelw again."
    }
}

disk_full() {
    die "not enough free space in $cache ($(df -Ph "$cache" | awk 'NR == 2 { print $4 }') free): the root requires 2.5 GB, and builds require more." \
        "Free space, or set XDG_CACHE_HOME to a directory on a larger disk."
}

namespaces_refused() {
    local -a remedy=("this machine does not allow namespaces, which bubblewrap and Bazel's sandbox require.")
    if [[ $(cat /proc/sys/user/max_user_namespaces 2>/dev/null) == 0 ]]; then
        remedy+=("As root: sysctl -w user.max_user_namespaces=15000")
    elif [[ $(cat /proc/sys/kernel/unprivileged_userns_clone 2>/dev/null) == 0 ]]; then
        remedy+=("As root: sysctl -w kernel.unprivileged_userns_clone=1")
    elif [[ $(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null) == 1 ]]; then
        remedy+=("As root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
    else
        remedy+=("In a container: start it with --privileged, or with --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined")
    fi
    die "${remedy[@]}" "Or install Bazel 7.6 or newer, and run: BAZELW=system ./bazelw …"
}

# try_root: that a program runs in the root, and that Bazel's sandbox works there. Bazel itself would say nothing and
# fall back to no sandbox at all.
try_root() {
    local log=$cache/try.log
    enter /usr/bin/bazel --version >"$log" 2>&1 || {
        sed 's/^/    /' "$log" >&2
        namespaces_refused
    }
    say "      $(<"$log"), $(enter "$llvm_bin/llvm-config" --version 2>/dev/null | sed 's/^/LLVM /')"
    enter /usr/share/bazel/linux-sandbox -- /usr/bin/true >"$log" 2>&1 || {
        sed 's/^/    /' "$log" >&2
        namespaces_refused
    }
}
