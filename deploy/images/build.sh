#!/usr/bin/env bash
# Builds images for this machine, with base images pinned by digest, and with version and commit in the labels.
#
#   deploy/images/build.sh                                  glaim-stream/{worker,triton,training}:<version>
#   deploy/images/build.sh worker triton                    these alone
#   REGISTRY=registry.example/team deploy/images/build.sh   the same names prefixed with a registry
#   PYTHON_IMAGE=... TRITON_IMAGE=... deploy/images/build.sh   other base images than those of deploy/.env
#
# A base with a digest is used unchanged. Of another the script resolves the tag once, builds every stage of every image
# from that digest, and prints it, so that the build can be repeated. Needs Docker with buildx. Nothing is pushed:
# `python -m deploy.release` publishes.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(sed -nE 's/^version = "([^"]+)"$/\1/p' pyproject.toml | head -n 1)
revision=$(git describe --always --dirty --abbrev=40)
prefix=${REGISTRY:+$REGISTRY/}glaim-stream

# Reads a line of deploy/.env, so that the tag is written in one place only.
base_of() { sed -nE "s/^$1=(.+)\$/\1/p" deploy/.env; }

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

[ "$#" -gt 0 ] || set -- worker training triton
python=''
for name in "$@"; do
    case $name in
        worker | training)
            [ -n "$python" ] || python=$(pinned "${PYTHON_IMAGE:-$(base_of PYTHON_IMAGE)}")
            build "$name" PYTHON_IMAGE "$python"
            ;;
        triton)
            triton=$(pinned "${TRITON_IMAGE:-$(base_of TRITON_IMAGE)}")
            build triton TRITON_IMAGE "$triton"
            ;;
        *)
            echo "expected worker, training or triton, found $name" >&2
            exit 2
            ;;
    esac
done
