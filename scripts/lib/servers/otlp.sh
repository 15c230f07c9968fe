# shellcheck shell=bash
# OpenTelemetry's own messages for Python, with which a collector of the tests reads the traces that are sent.
# Sourced by lib/setup.sh.

OTLP_PACKAGE=opentelemetry_proto
OTLP_VERSION=1.35.0
PROTOBUF_VERSION=6.31.1

setup_otlp() {
    command -v python3 >/dev/null 2>&1 || apt_install "the collector of the tests' traces" python3-minimal
    if ! [ -d "$SERVERS/$OTLP_PACKAGE-$OTLP_VERSION.dist-info" ] ||
        ! [ -d "$SERVERS/protobuf-$PROTOBUF_VERSION.dist-info" ]; then
        say "fetching $OTLP_PACKAGE $OTLP_VERSION into .servers (it reads the tests' traces)"
        rm -rf "${SERVERS:?}/opentelemetry" "$SERVERS/google/protobuf" \
            "$SERVERS/$OTLP_PACKAGE"-*.dist-info "$SERVERS"/protobuf-*.dist-info
        pip_install "opentelemetry-proto==$OTLP_VERSION" "protobuf==$PROTOBUF_VERSION"
    fi
    READY+=("opentelemetry-proto $OTLP_VERSION")
}
