# shellcheck shell=bash
# What the two example adapters need (examples/exec): Python 3, Node 18 or newer, and the TypeScript compiler,
# which goes into .servers/exec as the example's own lock file says.
# server: Python 3 | MESH_TEST_PYTHON_3 | 3. | python3
# server: Node | MESH_TEST_NODE | | node
# server: TypeScript compiler | MESH_TEST_TSC | 5. | .servers/exec/node_modules/typescript/bin/tsc

setup_exec() {
    command -v python3 >/dev/null 2>&1 || apt_install "the example adapter in Python" python3-minimal
    if ! command -v node >/dev/null 2>&1; then
        apt_install "the example adapter in TypeScript" nodejs
    fi
    local example="$ROOT/examples/exec/typescript" to="$SERVERS/exec"
    if ! [ -f "$to/node_modules/typescript/bin/tsc" ] ||
        ! cmp -s "$example/package-lock.json" "$to/package-lock.json"; then
        command -v npm >/dev/null 2>&1 || apt_install "npm, to fetch the TypeScript compiler" npm
        say "fetching the TypeScript compiler into .servers/exec (for the example adapter)"
        mkdir -p "$to"
        cp "$example/package.json" "$example/package-lock.json" "$to/"
        if ! (cd "$to" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2); then
            rm -f "$to/package-lock.json"
            fail "npm could not fetch the TypeScript compiler"
        fi
    fi
    READY+=("python3 $(python3 --version | cut -d' ' -f2)" "node $(node --version | tr -d v)")
}
