# shellcheck shell=bash
# Dovecot 2.3 from Debian, which the tests start for themselves, as the user `dovecot` that the package makes.
#   MESH_TEST_DOVECOT   dovecot on the PATH, or /usr/sbin/dovecot    Debian package dovecot-imapd
#   MESH_TEST_DOVEADM   doveadm on the PATH                          … dovecot-core, which comes with it
# server: Dovecot | MESH_TEST_DOVECOT | 2.3. | dovecot

setup_dovecot() {
    # Its other packages bring the program without IMAP.
    if [ -z "${MESH_TEST_DOVECOT:-}" ] && ! [ -x /usr/lib/dovecot/imap-login ]; then
        apt_install "the Dovecot that the tests start for themselves" dovecot-imapd
        stop_service dovecot
    fi
    deb_server MESH_TEST_DOVECOT dovecot dovecot-imapd
    READY+=("dovecot $("$FOUND" --version 2>/dev/null | cut -d' ' -f1 || true)")
}
