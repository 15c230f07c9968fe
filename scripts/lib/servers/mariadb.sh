# shellcheck shell=bash
# MariaDB 10.11, from Debian: the tests start servers of their own.
#   MESH_TEST_MARIADB           mariadbd on the PATH, or /usr/sbin/mariadbd
#   MESH_TEST_MARIADB_CLIENT    mariadb on the PATH
#   MESH_TEST_MARIADB_INSTALL   mariadb-install-db on the PATH

mariadb_program() {
    if [ -n "${MESH_TEST_MARIADB:-}" ]; then
        printf '%s\n' "$MESH_TEST_MARIADB"
    elif ! command -v mariadbd; then
        printf '%s\n' /usr/sbin/mariadbd
    fi
}

setup_mariadb() {
    if ! [ -x "$(mariadb_program)" ]; then
        [ -z "${MESH_TEST_MARIADB:-}" ] || fail "MESH_TEST_MARIADB names no program: $MESH_TEST_MARIADB"
        apt_install "the MariaDB that the tests start for themselves" mariadb-server
        stop_mariadb_service
        [ -x "$(mariadb_program)" ] || fail "the package mariadb-server brought no mariadbd"
    fi
    READY+=("mariadbd $("$(mariadb_program)" --version 2>/dev/null | sed -n 's/.*Ver \([0-9.]*\).*/\1/p' || true)")
}

# The package may have started a server of its own. Nobody asked for that one, and we installed it.
stop_mariadb_service() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --now mariadb >/dev/null 2>&1 || true
    elif [ -x /etc/init.d/mariadb ]; then
        as_root /etc/init.d/mariadb stop >/dev/null 2>&1 || true
        as_root update-rc.d mariadb disable >/dev/null 2>&1 || true
    fi
}
