# shellcheck shell=bash
# MariaDB 10.11, from Debian: the tests start servers of their own.
#   MESH_TEST_MARIADB           mariadbd on the PATH, or /usr/sbin/mariadbd
#   MESH_TEST_MARIADB_CLIENT    mariadb on the PATH
#   MESH_TEST_MARIADB_INSTALL   mariadb-install-db on the PATH
# server: MariaDB 10.11 | MESH_TEST_MARIADB | 10.11. | mariadbd

setup_mariadb() {
    deb_server MESH_TEST_MARIADB mariadbd mariadb-server mariadb
    READY+=("mariadbd $("$FOUND" --version 2>/dev/null | sed -n 's/.*Ver \([0-9.]*\).*/\1/p' || true)")
}
