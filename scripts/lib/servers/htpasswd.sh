# shellcheck shell=bash
# Readers of password files, from Debian: Apache's htpasswd, and an nginx that the tests start for themselves.
#   MESH_TEST_HTPASSWD   htpasswd on the PATH
#   MESH_TEST_NGINX      nginx on the PATH, or /usr/sbin/nginx
# server: nginx, for password files | MESH_TEST_NGINX | 1. | nginx

setup_htpasswd() {
    local tool=${MESH_TEST_HTPASSWD:-}
    if [ -n "$tool" ]; then
        [ -x "$tool" ] || fail "MESH_TEST_HTPASSWD names no program: $tool"
    elif ! command -v htpasswd >/dev/null 2>&1; then
        apt_install "the program that reads and writes the tests' password files" apache2-utils
    fi
    deb_server MESH_TEST_NGINX nginx nginx-light
    READY+=("htpasswd" "nginx $("$FOUND" -v 2>&1 | sed -n 's|.*nginx/\([0-9.]*\).*|\1|p' || true)")
}
