# shellcheck shell=bash
# OpenLDAP from Debian, which the tests start for themselves: /usr/sbin/slapd, and its clients.

setup_ldap() {
    if ! [ -x /usr/sbin/slapd ] && ! command -v slapd >/dev/null 2>&1; then
        apt_install "the OpenLDAP that the tests start for themselves" slapd
        stop_slapd_service
    fi
    command -v ldapsearch >/dev/null 2>&1 || apt_install "OpenLDAP's clients, for the tests" ldap-utils
    READY+=("slapd $(/usr/sbin/slapd -VV 2>&1 | sed -n 's/.*slapd \([0-9][^ +]*\).*/\1/p' || true)")
}

# The package may have started a server of its own. Nobody asked for that one, and we installed it.
stop_slapd_service() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --now slapd >/dev/null 2>&1 || true
    elif [ -x /etc/init.d/slapd ]; then
        as_root /etc/init.d/slapd stop >/dev/null 2>&1 || true
        as_root update-rc.d slapd disable >/dev/null 2>&1 || true
    fi
}
