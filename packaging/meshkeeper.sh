#!/bin/sh
# meshkeeper: the words of mesh, said to the service of this machine: with its manifest, its data folder and its user.
# What it makes in the data folder so belongs to the service, and it sees no more than that.
set -eu
export MESH_CONFIG="${MESH_CONFIG:-/etc/meshkeeper/mesh.toml}" MESH_DATA="${MESH_DATA:-/var/lib/meshkeeper}"
if [ "$(id -un)" = meshkeeper ]; then
    exec /usr/bin/mesh "$@"
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "meshkeeper: this needs root, to become the service's user: sudo meshkeeper $*" >&2
    exit 1
fi
exec runuser --user meshkeeper --preserve-environment -- /usr/bin/mesh "$@"
