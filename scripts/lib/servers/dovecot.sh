# shellcheck shell=bash
# Dovecot 2.3 from Debian, which the tests start for themselves, as the user `dovecot` that the package makes.
#
#   MESH_TEST_DOVECOT   dovecot on the PATH, or /usr/sbin/dovecot    Debian package dovecot-imapd
#   MESH_TEST_DOVEADM   doveadm on the PATH                          Debian package dovecot-core, with it

dovecot_program() {
    if [ -n "${MESH_TEST_DOVECOT:-}" ]; then
        printf '%s\n' "$MESH_TEST_DOVECOT"
    elif ! command -v dovecot; then
        printf '%s\n' /usr/sbin/dovecot
    fi
}

setup_dovecot() {
    # Its other packages bring the program without IMAP.
    if [ -n "${MESH_TEST_DOVECOT:-}" ]; then
        [ -x "$MESH_TEST_DOVECOT" ] || fail "MESH_TEST_DOVECOT names no program: $MESH_TEST_DOVECOT"
    elif ! [ -x "$(dovecot_program)" ] || ! [ -x /usr/lib/dovecot/imap-login ]; then
        apt_install "the Dovecot that the tests start for themselves" dovecot-imapd
        stop_dovecot_service
        [ -x "$(dovecot_program)" ] || fail "the package dovecot-imapd brought no dovecot"
    fi
    READY+=("dovecot $("$(dovecot_program)" --version 2>/dev/null | cut -d' ' -f1 || true)")
}

# The package may have started a server of its own. Nobody asked for that one, and we installed it.
stop_dovecot_service() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --now dovecot >/dev/null 2>&1 || true
    elif [ -x /etc/init.d/dovecot ]; then
        as_root /etc/init.d/dovecot stop >/dev/null 2>&1 || true
        as_root update-rc.d dovecot disable >/dev/null 2>&1 || true
    fi
}
