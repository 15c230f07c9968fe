# shellcheck shell=bash
# Prometheus and its promtool, from Debian: what the tests scrape with, and what judges metrics and rules.
#   MESH_TEST_PROMETHEUS   prometheus on the PATH
#   MESH_TEST_PROMTOOL     promtool on the PATH
# server: Prometheus | MESH_TEST_PROMETHEUS | 2. | prometheus

setup_prometheus() {
    deb_server MESH_TEST_PROMETHEUS prometheus prometheus
    local tool=${MESH_TEST_PROMTOOL:-$(on_path promtool)}
    [ -x "$tool" ] || fail "there is no promtool beside prometheus: MESH_TEST_PROMTOOL may name one"
    READY+=("prometheus $("$FOUND" --version 2>&1 | sed -n 's/^prometheus, version \([0-9.]*\).*/\1/p' || true)")
}
