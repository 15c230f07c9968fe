# shellcheck shell=bash
# Mosquitto 2.0 with the dynamic security plugin, as Debian has it. Sourced by lib/setup.sh.
#
#   MESH_TEST_MOSQUITTO       mosquitto on the PATH, or /usr/sbin/mosquitto      Debian package
#   MESH_TEST_MOSQUITTO_CTRL  mosquitto_ctrl on the PATH                         the same package

mosquitto_program() {
    if [ -n "${MESH_TEST_MOSQUITTO:-}" ]; then
        printf '%s\n' "$MESH_TEST_MOSQUITTO"
    elif ! command -v mosquitto; then
        printf '%s\n' /usr/sbin/mosquitto
    fi
}

setup_mosquitto() {
    if ! [ -x "$(mosquitto_program)" ]; then
        [ -z "${MESH_TEST_MOSQUITTO:-}" ] ||
            fail "MESH_TEST_MOSQUITTO names no program: $MESH_TEST_MOSQUITTO"
        apt_install "the Mosquitto that the tests start for themselves" mosquitto
        stop_mosquitto_service
        [ -x "$(mosquitto_program)" ] || fail "the package mosquitto brought no mosquitto"
    fi
    READY+=("mosquitto $("$(mosquitto_program)" -h 2>/dev/null | sed -n 's/^mosquitto version //p' || true)")
}

# The package may have started a broker of its own. Nobody asked for that one, and we installed it.
stop_mosquitto_service() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --now mosquitto >/dev/null 2>&1 || true
    elif [ -x /etc/init.d/mosquitto ]; then
        as_root /etc/init.d/mosquitto stop >/dev/null 2>&1 || true
        as_root update-rc.d mosquitto disable >/dev/null 2>&1 || true
    fi
}
