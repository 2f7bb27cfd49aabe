#!/usr/bin/env bash
# Builds images on a Debian machine that reaches no registry of images, from stand-ins for the base images.
#
#   deploy/images/without_registry.sh FOLDER                   all three, in a storage below FOLDER
#   deploy/images/without_registry.sh FOLDER worker            this one alone
#   PYTHON_PREFIX=/opt/python-3.11 ...                         the Python to take (default: that of python3.11)
#
# The stand-in for PYTHON_IMAGE consists of Debian bookworm (debootstrap) and of this machine's Python in /usr/local, as in
# the official image: without tests and byte code, and with the certificates that this machine trusts. It is tagged with
# the name in deploy/.env, so the Containerfiles are built unchanged. That for TRITON_IMAGE is the same with an entry point
# that starts its arguments: it holds no Triton, and shows only that the steps of the Containerfile work. Both replace the
# official images for tests only.
#
# Needs root, buildah, crun and debootstrap (`apt-get install buildah crun debootstrap`), a package registry, and disk: 2 GB
# for the worker, 35 GB for training. Nothing is pushed. To use the images and to remove them:
#
#   buildah --root FOLDER/storage --runroot FOLDER/run --storage-driver vfs images
#   buildah --root FOLDER/storage --runroot FOLDER/run --storage-driver vfs rmi --all && rm -rf FOLDER
set -euo pipefail

folder=$(realpath "${1:?expected a folder for the storage}")
shift
cd "$(dirname "$0")/../.."
[ "$#" -gt 0 ] || set -- worker training triton
for name in "$@"; do
    case $name in
        worker | training | triton) ;;
        *)
            echo "expected worker, training or triton, found $name" >&2
            exit 2
            ;;
    esac
done
for program in buildah crun debootstrap; do
    command -v "$program" > /dev/null || {
        echo "expected buildah, crun and debootstrap, found no $program" >&2
        exit 3
    }
done

version=$(sed -nE 's/^version = "([^"]+)"$/\1/p' pyproject.toml | head -n 1)
base=$(sed -nE 's/^PYTHON_IMAGE=([^@]+).*$/\1/p' deploy/.env)
triton=$(sed -nE 's/^TRITON_IMAGE=([^@]+).*$/\1/p' deploy/.env)
release=${base##*-}            # bookworm
python=${base#*:}              # 3.11-slim-bookworm
python=${python%%-*}           # 3.11
prefix=${PYTHON_PREFIX:-$("python$python" -c 'import sys; print(sys.base_prefix)')}
[ -x "$prefix/bin/python$python" ] && [ "$prefix" != /usr ] || {
    echo "expected Python $python in a prefix of its own in PYTHON_PREFIX, found $prefix" >&2
    exit 3
}
mkdir -p "$folder"

tool() { buildah --root "$folder/storage" --runroot "$folder/run" --storage-driver vfs "$@"; }

make_base() {
    local root=$folder/base container
    rm -rf "$root"
    # The packages of the official image, and the libraries that its Python is linked with.
    debootstrap --variant=minbase \
        --include=ca-certificates,libbz2-1.0,libexpat1,libffi8,liblzma5,libncursesw6,libreadline8,libsqlite3-0,libssl3,libuuid1,netbase,tzdata,zlib1g \
        "$release" "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" > "$folder/debootstrap.log"
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
    mkdir -p "$root/usr/local/lib" "$root/usr/local/bin"
    tar --directory "$prefix" --create --exclude=site-packages --exclude=test --exclude=tests --exclude=idle_test \
        --exclude='*.pyc' --exclude='*.a' --exclude=__pycache__ "bin/python$python" "lib/python$python" \
        | tar --directory "$root/usr/local" --extract --no-same-owner
    for library in "$prefix"/lib/libpython*.so*; do
        [ ! -e "$library" ] || cp --no-dereference "$library" "$root/usr/local/lib/"
    done
    strip --strip-unneeded "$root/usr/local/bin/python$python" "$root"/usr/local/lib/libpython*.so.* 2> /dev/null || true
    ln -s "python$python" "$root/usr/local/bin/python3"
    ln -s python3 "$root/usr/local/bin/python"
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    chroot "$root" ldconfig
    # As in the official image: the installer is there, and no byte code.
    chroot "$root" env PATH=/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 python -m ensurepip --upgrade
    container=$(tool from scratch)
    tool add --quiet "$container" "$root" /
    tool config --env PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin --env LANG=C.UTF-8 \
        --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt --env PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
        --cmd python3 "$container"
    tool commit --quiet --rm "$container" "docker.io/library/$base"
    rm -rf "$root"
}

make_triton_base() {
    local container
    container=$(tool from --pull-never "docker.io/library/$base")
    printf '#!/bin/sh\nexec "$@"\n' > "$folder/nvidia_entrypoint.sh"
    tool copy --quiet --chmod 0755 "$container" "$folder/nvidia_entrypoint.sh" /opt/nvidia/nvidia_entrypoint.sh
    tool commit --quiet --rm "$container" "$triton"
}

tool inspect --type image "docker.io/library/$base" > /dev/null 2>&1 || make_base
for name in "$@"; do
    if [ "$name" = triton ]; then make_triton_base; fi
    tool bud --isolation chroot --network host --pull-never --quiet \
        --file "deploy/images/$name/Containerfile" --ignorefile .dockerignore \
        --tag "glaim-stream/$name:$version" \
        --build-arg "PYTHON_IMAGE=docker.io/library/$base" --build-arg "TRITON_IMAGE=$triton" \
        --build-arg "VERSION=$version" --build-arg "REVISION=$(git describe --always --dirty --abbrev=40)" .
done
tool images
