# shellcheck shell=bash
# Mosquitto 2.0 with the dynamic security plugin, as Debian has it. Sourced by lib/setup.sh.
#
#   MESH_TEST_MOSQUITTO       mosquitto on the PATH, or /usr/sbin/mosquitto      Debian package
#   MESH_TEST_MOSQUITTO_CTRL  mosquitto_ctrl on the PATH                         the same package
# server: Mosquitto | MESH_TEST_MOSQUITTO | 2.0. | mosquitto

setup_mosquitto() {
    deb_server MESH_TEST_MOSQUITTO mosquitto mosquitto
    READY+=("mosquitto $("$FOUND" -h 2>/dev/null | sed -n 's/^mosquitto version //p' || true)")
}
