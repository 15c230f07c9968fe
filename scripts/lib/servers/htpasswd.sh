# shellcheck shell=bash
# Readers of password files, from Debian: Apache's htpasswd, and an nginx that the tests start for themselves.
#   MESH_TEST_HTPASSWD   htpasswd on the PATH
#   MESH_TEST_NGINX      nginx on the PATH, or /usr/sbin/nginx

nginx_program() {
    if [ -n "${MESH_TEST_NGINX:-}" ]; then
        printf '%s\n' "$MESH_TEST_NGINX"
    elif ! command -v nginx; then
        printf '%s\n' /usr/sbin/nginx
    fi
}

setup_htpasswd() {
    local tool=${MESH_TEST_HTPASSWD:-}
    if [ -n "$tool" ]; then
        [ -x "$tool" ] || fail "MESH_TEST_HTPASSWD names no program: $tool"
    elif ! command -v htpasswd >/dev/null 2>&1; then
        apt_install "the program that reads and writes the tests' password files" apache2-utils
    fi
    if ! [ -x "$(nginx_program)" ]; then
        [ -z "${MESH_TEST_NGINX:-}" ] || fail "MESH_TEST_NGINX names no program: $MESH_TEST_NGINX"
        apt_install "the nginx that reads the tests' password files" nginx-light
        stop_nginx_service
        [ -x "$(nginx_program)" ] || fail "the package nginx-light brought no nginx"
    fi
    READY+=("htpasswd" "nginx $("$(nginx_program)" -v 2>&1 | sed -n 's|.*nginx/\([0-9.]*\).*|\1|p' || true)")
}

# The package may have started a server of its own. Nobody asked for that one, and we installed it.
stop_nginx_service() {
    if [ -d /run/systemd/system ]; then
        as_root systemctl disable --now nginx >/dev/null 2>&1 || true
    elif [ -x /etc/init.d/nginx ]; then
        as_root /etc/init.d/nginx stop >/dev/null 2>&1 || true
        as_root update-rc.d nginx disable >/dev/null 2>&1 || true
    fi
}
