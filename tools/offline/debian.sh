# The Debian system of the offline root: Bazel, compilers and tools, of forky or sid.
# shellcheck shell=bash disable=SC2154

# find_mirror: sets mirror to the Debian mirror that apt uses, or that BAZELW_MIRROR names.
find_mirror() {
    local uri suite
    mirror=${BAZELW_MIRROR:-}
    [[ -z $mirror ]] || return 0
    # shellcheck disable=SC2016
    while read -r uri suite; do
        case $suite in *-*) continue ;; esac
        case $uri in *debian-security* | *ubuntu*) continue ;; esac
        mirror=${uri%/}
        return 0
    done < <(apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null)
    die "apt's sources name no Debian mirror to take Bazel from." \
        "Name one: BAZELW_MIRROR=http://HOST/debian ./bazelw …   (it must have the suites forky or sid)."
}

# choose_suite: sets suite to forky, or to sid if the mirror does not have forky.
choose_suite() {
    local answer
    case $mirror in http://* | https://*) ;; *) suite=forky; return ;; esac
    for suite in forky sid; do
        answer=$(curl -sSL --connect-timeout 20 --max-time 60 -o /dev/null -w '%{http_code}' "$mirror/dists/$suite/InRelease" 2>&1) && [[ $answer == 200 ]] && return
        say "      $mirror has no $suite: ${answer//$'\n'/ }"
    done
    die "the Debian mirror $mirror cannot be used: it has neither forky nor sid." \
        "Is this machine online, does it need http_proxy? Another mirror: BAZELW_MIRROR=http://HOST/debian ./bazelw …"
}

# make_debian DIR: fills a new folder with the Debian root.
make_debian() {
    local dir=$1 packages log=$cache/debian.log status attempt scratch
    packages=$(sed '/^#/d;/^$/d' "$offline_dir/packages" | paste -sd,)
    local -a command=(
        --variant=minbase --include="$packages"
        # A mirror's Release file can be past its date.
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"'
        # What is interrupted is thrown away, so not every file needs to be on the disk before the next.
        --dpkgopt=force-unsafe-io
        --dpkgopt='path-exclude=/usr/share/locale/*'
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
        "$suite"
    )
    for attempt in 1 2; do
        rm -rf --one-file-system "${dir:?}"
        mkdir -p "$dir"
        status=0
        if [[ $(id -u) -eq 0 ]]; then
            # In a mount namespace of its own: what it mounts in the root goes with it, even when it is killed.
            unshare --mount --propagation private mmdebstrap --mode=root --format=directory "${command[@]}" "$dir" "$mirror" \
                2>&1 >/dev/null | watch_log "$log" || status=$?
        else
            # The tree is built by the user's subordinate ids, which the cache may be closed to, and unpacked as the
            # user's own.
            remove_scratch
            scratch=$(mktemp -d "${TMPDIR:-/tmp}/rules_offload-XXXXXX")
            chmod 755 "$scratch"
            printf '%s\n' "$scratch" > "$cache/scratch"
            { TMPDIR=$scratch mmdebstrap --mode=unshare --format=tar "${command[@]}" - "$mirror" 2>&3 |
                tar -x --exclude=./dev -C "$dir"; } 3>&1 >/dev/null 2>&3 | watch_log "$log" || status=$?
            remove_scratch
        fi
        [[ $status -eq 0 ]] && break
        # A package index can be older than the pool behind it; a second reading may find it mended.
        if [[ $attempt -eq 2 ]] || ! grep -q ' 404 ' "$log"; then
            debian_failed "$log"
        fi
        say "      the mirror lacks a file that its index names; once more"
    done
    # Places for what is bound from the machine, and nothing of mmdebstrap's making.
    rm -rf --one-file-system "${dir:?}/dev" "$dir/etc/resolv.conf"
    mkdir -p "$dir/host" "$dir/usr/local" "$dir/usr/src" "$dir/etc/ssl/certs" "$dir/etc/bazel"
    touch "$dir"/etc/{resolv.conf,hosts,passwd,group,nsswitch.conf} "$dir/etc/ssl/certs/ca-certificates.crt" "$dir/etc/bazel/bazelrc"
}

# remove_scratch: an interrupted mmdebstrap leaves files that belong to the subordinate ids.
remove_scratch() {
    local scratch
    [[ -f $cache/scratch ]] || return 0
    scratch=$(<"$cache/scratch")
    if [[ -d $scratch ]]; then
        # They may empty the folder, of which they are not the owners; what is the user's own goes afterwards.
        chmod 777 "$scratch"
        mmdebstrap --unshare-helper rm -rf "$scratch"/* >/dev/null 2>&1 || true
        rm -rf "${scratch:?}" || say "      $scratch could not be removed"
    fi
    rm -f "$cache/scratch"
}

# watch_log LOG: keeps what mmdebstrap says, and shows its steps with the time since the start.
watch_log() {
    local line start=$SECONDS
    : > "$1"
    while IFS= read -r line; do
        printf '%s\n' "$line" >> "$1"
        case $line in
            'I: automatically'* | 'I: success'* | 'I: done'* | 'I: removing'* | 'I: chroot architecture'* | 'I: finding correct'*) ;;
            'I: '*) say "      $((SECONDS - start)) s: ${line#I: }" ;;
        esac
    done
}

debian_failed() {
    say "Debian could not be unpacked. The end of $1:"
    tail -n 12 "$1" | sed 's/^/    /' >&2
    if grep -qiE 'no space left on device|enough free space' "$1"; then
        disk_full
    elif grep -qE 'unshare|newuidmap|/etc/subuid|/etc/subgid|user namespace' "$1"; then
        namespaces_refused
    elif grep -q ' 404 ' "$1"; then
        die "the mirror lacks a package that its index names." \
            "Try again later, or with another mirror: BAZELW_MIRROR=http://HOST/debian ./bazelw …"
    elif grep -qE 'NO_PUBKEY|not signed|GPG error' "$1"; then
        die "the mirror's signature cannot be checked. Install the newest keys: apt-get install debian-archive-keyring"
    elif grep -qE 'Unable to locate package|has no installation candidate|unmet dependencies' "$1"; then
        die "$suite lacks a package today; testing and unstable move on. Try again later."
    fi
    die "Is the mirror $mirror within reach? Another one: BAZELW_MIRROR=http://HOST/debian ./bazelw …"
}
