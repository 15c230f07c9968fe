# shellcheck shell=bash
# What the host loop keeps things with: Podman and crun from Debian, each test's engine in namespaces of its own, and a
# static busybox for the images that the tests make. systemd comes with the readers. Sourced by lib/setup.sh.
#   MESH_TEST_PODMAN    podman on the PATH     Debian package podman
#   MESH_TEST_BUSYBOX   busybox on the PATH    … busybox-static
# server: Podman | MESH_TEST_PODMAN | 4. | podman

setup_engines() {
    if [ -z "${MESH_TEST_PODMAN:-}" ] && ! { command -v podman && command -v crun; } >/dev/null 2>&1; then
        apt_install "the Podman that the tests start for themselves" podman crun
        stop_service podman podman.socket
    fi
    if [ -z "${MESH_TEST_BUSYBOX:-}" ] && ! command -v busybox >/dev/null 2>&1; then
        apt_install "the tools in the images of the tests" busybox-static
    fi
    if ! command -v unshare >/dev/null 2>&1; then
        apt_install "namespaces for the tests' engines" util-linux
    fi
    READY+=("podman $("${MESH_TEST_PODMAN:-podman}" --version 2>/dev/null | cut -d' ' -f3 || true)")
}
