# shellcheck shell=bash
# Readers of delivered env files: systemd and bash from Debian, python-dotenv as PyPI has it. Sourced by lib/setup.sh.

DOTENV_PACKAGE=python_dotenv
DOTENV_VERSION=1.2.4

setup_readers() {
    if ! [ -x /lib/systemd/systemd ]; then
        apt_install "the systemd that reads delivered env files" systemd
    fi
    if ! command -v bash >/dev/null 2>&1 || ! command -v dash >/dev/null 2>&1; then
        apt_install "shells that read delivered env files" bash dash
    fi
    if ! [ -d "$SERVERS/$DOTENV_PACKAGE-$DOTENV_VERSION.dist-info" ] || ! [ -d "$SERVERS/dotenv" ]; then
        say "fetching $DOTENV_PACKAGE $DOTENV_VERSION into .servers (a reader of delivered env files)"
        rm -rf "${SERVERS:?}/dotenv" "$SERVERS/$DOTENV_PACKAGE"-*.dist-info
        pip_install "python-dotenv==$DOTENV_VERSION"
    fi
    READY+=("systemd" "python-dotenv $DOTENV_VERSION")
}
