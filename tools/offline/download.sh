# Packages of Debian beside the root.
# shellcheck shell=bash disable=SC2154

# shellcheck source=tools/offline/debian.sh
. "$offline_dir/debian.sh"

# download DIR SUITES PACKAGE...: downloads packages to DIR.apt/debs. Of several suites, the newest version counts, unless
# default_release names the one to prefer. After a failure, neither DIR nor DIR.apt is left.
download() {
    local dir=$1 state=$1.apt suite
    local -a suites
    read -ra suites <<< "$2"
    shift 2
    find_mirror
    rm -rf -- "$dir" "$state"
    mkdir -p "$dir" "$state"/{lists/partial,cache/archives/partial,debs}
    touch "$state/status"
    for suite in "${suites[@]}"; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
    done > "$state/sources.list"
    cat > "$state/apt.conf" <<END
Dir::State "$state"; Dir::State::status "$state/status"; Dir::State::lists "$state/lists"; Dir::Cache "$state/cache";
Dir::Etc::sourcelist "$state/sources.list"; Dir::Etc::sourceparts "-"; APT::Sandbox::User ""; Acquire::Languages "none";
Acquire::Check-Valid-Until "false"; Acquire::Retries "3"; APT::Architecture "amd64"; Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
${default_release:+APT::Default-Release "$default_release";}
END
    if ! (
        cd "$state/debs"
        export APT_CONFIG=$state/apt.conf
        apt-get -q update && apt-get -q download "$@"
    ) > "$state/log" 2>&1; then
        say "cannot download $* from $mirror:"
        tail -n 5 "$state/log" >&2
        rm -rf -- "$dir" "$state"
        die "Is the mirror reachable, and are these packages in one of its suites (${suites[*]})? To use another mirror: BAZELW_MIRROR=http://HOST/debian"
    fi
}
