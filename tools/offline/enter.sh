# Runs a program in the offline root: Debian's /usr and /etc, the machine's everything else under the same paths.
# shellcheck shell=bash disable=SC2154

# enter COMMAND [ARG]...: returns the status of the command. Needs locate and read_go.
enter() {
    local -a mounts=(
        # The root itself is an empty tmpfs: a place for anything can be made in it.
        --ro-bind "$debian/usr" /usr --ro-bind "$debian/etc" /etc
        --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64
        --dir /var --ro-bind "$debian/var/lib/dpkg" /var/lib/dpkg --bind /var/tmp /var/tmp
        --dir /run --symlink /run /var/run
        # The machine's own procfs: over a fresh one Bazel's sandbox cannot mount its own.
        --bind /proc /proc --ro-bind /sys /sys --dev-bind /dev /dev --bind /tmp /tmp
        --bind /usr/local /usr/local --ro-bind /usr /host/usr
        --ro-bind "$kit" /kit --ro-bind "$kit/bazelrc" /etc/bazel/bazelrc
    )
    local path
    for path in /*; do
        case $path in
            /usr | /bin | /sbin | /lib | /lib32 | /lib64 | /libx32 | /etc | /var | /boot | /proc | /sys | /dev | /run | /tmp | /host | /kit | /lost+found) ;;
            *)
                if [[ -L $path ]]; then
                    mounts+=(--symlink "$(readlink -- "$path")" "$path")
                elif [[ -d $path && -x $path ]]; then
                    mounts+=(--bind "$path" "$path")
                fi
                ;;
        esac
    done
    for path in "${HOME:-/}" "$project_dir" "${cache%/*}" "${TMPDIR:-/}" "$GOMODCACHE" "${workspace:-/}" "$PWD"; do
        case $path in /var/* | /run/*) [[ -d $path ]] && mounts+=(--bind "$path" "$path") ;; esac
    done
    for path in /etc/{resolv.conf,hosts,passwd,group,nsswitch.conf}; do
        [[ -f $path ]] && mounts+=(--ro-bind "$path" "$path")
    done
    path=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
    [[ -f $path ]] && mounts+=(--ro-bind "$path" /etc/ssl/certs/ca-certificates.crt)
    mounts+=(
        # What the machine says about its own programs and libraries is wrong for those of the root.
        --unsetenv LD_LIBRARY_PATH --unsetenv LD_PRELOAD --unsetenv LD_AUDIT --unsetenv JAVA_HOME
        --unsetenv CC --unsetenv CXX --unsetenv CPATH --unsetenv C_INCLUDE_PATH --unsetenv CPLUS_INCLUDE_PATH
        --unsetenv LIBRARY_PATH --unsetenv PYTHONHOME --unsetenv PYTHONPATH --unsetenv PERL5LIB
        # Not LLVM's folder: rules_cc would find lld there, and actions, which have a PATH of their own, would not.
        --setenv PATH "/usr/sbin:/usr/bin:$goroot_inside/bin"
        --setenv GOROOT "$goroot_inside"
        --setenv SSL_CERT_FILE /etc/ssl/certs/ca-certificates.crt
        --setenv RULES_OFFLOAD_ROOT "${kit##*-}"
        --chdir "$PWD"
    )

    # The shell stays as parent: it passes signals on, and its death ends the command (a Bazel server is no child of
    # it and lives on). Bubblewrap itself must not end on Ctrl-C before the command does: in the background it does
    # not, and env gives the command the usual dispositions back.
    local status child passed=1
    bwrap --die-with-parent "${mounts[@]}" env --default-signal=INT,QUIT "$@" <&0 &
    child=$!
    trap '' INT QUIT
    trap 'pass_on TERM "$child"' TERM
    trap 'pass_on HUP "$child"' HUP
    # A signal that is passed on ends the waiting early.
    while [[ -n $passed ]]; do
        passed=
        status=0
        wait "$child" || status=$?
    done
    trap - INT QUIT TERM HUP
    return "$status"
}

# pass_on SIGNAL PID: to the command that bubblewrap runs, as PID is bubblewrap.
pass_on() {
    local inner=
    passed=1
    # The file has no line end, which read reports.
    read -r inner _ 2>/dev/null < "/proc/$2/task/$2/children" || true
    kill -s "$1" "${inner:-$2}" 2>/dev/null || true
}
