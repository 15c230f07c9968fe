# shellcheck shell=bash
# RabbitMQ with its management plugin, as Debian has it. Sourced by lib/setup.sh.
#
#   MESH_TEST_RABBITMQ   /usr/lib/rabbitmq/bin/rabbitmq-server   Debian package rabbitmq-server
#   MESH_TEST_EPMD       epmd on the PATH                        … erlang-base, which comes with it
# server: RabbitMQ | MESH_TEST_RABBITMQ | 3.10. | ../lib/rabbitmq/bin/rabbitmq-server

RABBITMQ_PROGRAM=/usr/lib/rabbitmq/bin/rabbitmq-server

setup_rabbitmq() {
    local program=${MESH_TEST_RABBITMQ:-$RABBITMQ_PROGRAM}
    if ! [ -x "$program" ]; then
        [ -z "${MESH_TEST_RABBITMQ:-}" ] || fail "MESH_TEST_RABBITMQ names no program: $MESH_TEST_RABBITMQ"
        apt_install "the RabbitMQ that the tests start for themselves" rabbitmq-server
        stop_service rabbitmq-server epmd.socket epmd.service
        [ -x "$program" ] || fail "the package rabbitmq-server brought no $program"
    fi
    READY+=("rabbitmq-server $(rabbitmq_version "$program")")
}

# The folder that the program is in says which version it is; asking it would start an Erlang machine.
rabbitmq_version() { readlink -f "$1" | sed -n 's|.*/rabbitmq_server-\([^/]*\)/.*|\1|p'; }
