# shellcheck shell=bash
# The browser that reads the page, and what drives it. Sourced by lib/setup.sh.
#
#   MESH_TEST_CHROMIUM   chromium on the PATH, or /usr/bin/chromium   Debian package
#   Node.js              node on the PATH                             Debian packages nodejs, npm
#   playwright-core, axe-core                                         npm, as tests/browser/package-lock.json says
# No browser is fetched from npm.

PAGE_TESTS="$ROOT/crates/meshkeeper/tests/browser"

setup_page() {
    if ! [ -x "${MESH_TEST_CHROMIUM:-$(on_path_or_bin chromium)}" ]; then
        [ -z "${MESH_TEST_CHROMIUM:-}" ] || fail "MESH_TEST_CHROMIUM names no program: $MESH_TEST_CHROMIUM"
        apt_install "the browser that reads the page in the tests" chromium fonts-dejavu-core
    fi
    if ! command -v node >/dev/null 2>&1; then
        apt_install "what drives that browser" nodejs
    fi
    if ! cmp -s "$PAGE_TESTS/package-lock.json" "$SERVERS/page/package-lock.json" ||
        ! [ -d "$SERVERS/page/node_modules/playwright-core" ]; then
        command -v npm >/dev/null 2>&1 || apt_install "npm, to fetch what drives that browser" npm
        say "fetching playwright-core and axe-core into .servers (they drive the browser of the tests)"
        rm -rf "${SERVERS:?}/page"
        mkdir -p "$SERVERS/page"
        cp "$PAGE_TESTS/package.json" "$PAGE_TESTS/package-lock.json" "$SERVERS/page/"
        (cd "$SERVERS/page" && npm ci --ignore-scripts --no-audit --no-fund --silent >&2) ||
            fail "npm could not fetch playwright-core and axe-core"
    fi
    READY+=("chromium" "playwright-core")
}

on_path_or_bin() { command -v "$1" || printf '%s\n' "/usr/bin/$1"; }
