#!/usr/bin/env bash
# Builds the three images for a release, with base images pinned by digest, and with version and commit in the labels.
#
#   deploy/images/build.sh                                  glaim-stream/{worker,triton,training}:<version>
#   REGISTRY=registry.example/team deploy/images/build.sh   the same names prefixed with a registry
#   PYTHON_IMAGE=... TRITON_IMAGE=... deploy/images/build.sh   other base images; a name with a digest is used unchanged
#
# The script resolves each tag once and builds every stage of every image from that digest. It prints the digest, so that
# the build can be repeated. Needs Docker with buildx.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(sed -nE 's/^version = "([^"]+)"$/\1/p' pyproject.toml | head -n 1)
revision=$(git describe --always --dirty --abbrev=40)
prefix=${REGISTRY:+$REGISTRY/}glaim-stream

# Reads the default of an ARG from a Containerfile, so that the tag is written in one place only.
default_of() { sed -nE "s/^ARG $1=(.+)\$/\1/p" "$2" | head -n 1; }

pinned() {
    case $1 in
        *@sha256:*) printf '%s\n' "$1" ;;
        *) printf '%s@%s\n' "$1" "$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$1")" ;;
    esac
}

build() {
    local name=$1 argument=$2 base=$3
    echo "$prefix/$name:$version from $base"
    docker buildx build --load \
        --file "deploy/images/$name/Containerfile" \
        --tag "$prefix/$name:$version" \
        --build-arg "$argument=$base" \
        --build-arg "VERSION=$version" \
        --build-arg "REVISION=$revision" \
        --label "org.opencontainers.image.base.name=${base%@*}" \
        --label "org.opencontainers.image.base.digest=${base#*@}" \
        .
}

python=$(pinned "${PYTHON_IMAGE:-$(default_of PYTHON_IMAGE deploy/images/worker/Containerfile)}")
triton=$(pinned "${TRITON_IMAGE:-$(default_of TRITON_IMAGE deploy/images/triton/Containerfile)}")
build worker PYTHON_IMAGE "$python"
build training PYTHON_IMAGE "$python"
build triton TRITON_IMAGE "$triton"
