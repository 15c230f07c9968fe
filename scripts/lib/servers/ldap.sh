# shellcheck shell=bash
# OpenLDAP from Debian, which the tests start for themselves: /usr/sbin/slapd, and its clients.
# server: OpenLDAP | MESH_TEST_SLAPD | 2.5. | slapd

setup_ldap() {
    if ! [ -x /usr/sbin/slapd ] && ! command -v slapd >/dev/null 2>&1; then
        apt_install "the OpenLDAP that the tests start for themselves" slapd
        stop_service slapd
    fi
    command -v ldapsearch >/dev/null 2>&1 || apt_install "OpenLDAP's clients, for the tests" ldap-utils
    READY+=("slapd $(/usr/sbin/slapd -VV 2>&1 | sed -n 's/.*slapd \([0-9][^ +]*\).*/\1/p' || true)")
}
