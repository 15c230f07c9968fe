# shellcheck shell=bash
# A bare Debian with systemd, in which the package is installed, upgraded and purged (tests/doors/package.rs): made once,
# kept in .servers. The tests boot a copy of it in namespaces of their own.

setup_bare() {
    # The manual is played in a network of its own, whose loopback somebody must switch on.
    [ -x "$(on_path ip)" ] || apt_install "networks of their own for the manual's pages" iproute2
    command -v redis-cli >/dev/null 2>&1 || apt_install "the client that the manual uses" redis-tools
    if ! [ -s "$SERVERS/bare-root.tar" ]; then
        command -v mmdebstrap >/dev/null 2>&1 || apt_install "the bare Debian that the package is tried in" mmdebstrap
        say "making a bare Debian in .servers (the package is tried in it)"
        mkdir -p "$SERVERS"
        # From where this machine has its own packages.
        local file from=()
        for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
            if [ -s "$file" ]; then
                from=("$file")
                break
            fi
        done
        mmdebstrap --quiet --variant=apt --include=systemd,systemd-sysv bookworm \
            "$SERVERS/bare-root.part.tar" "${from[@]}" >&2 || fail "mmdebstrap could not make it"
        mv "$SERVERS/bare-root.part.tar" "$SERVERS/bare-root.tar"
    fi
    READY+=("bare Debian")
}
