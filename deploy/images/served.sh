#!/usr/bin/env bash
# Runs a command while a container of the Triton image serves the shipped models on localhost:8001.
#
#   deploy/images/served.sh cpu python -m deploy.compare_triton
#   deploy/images/served.sh gpu python -m benchmarks.serving --triton localhost:8001
#
# Needs Docker, for gpu NVIDIA's container toolkit, and the image of deploy/images/build.sh triton. The exit code is that
# of the command; 1 if not every model answers within 300 s, and then Triton's log is shown.
set -euo pipefail
cd "$(dirname "$0")/../.."

case ${1:-} in
    cpu) options=() arguments=(--model-config-name=cpu) ;;
    gpu) options=(--gpus all) arguments=(--model-control-mode=none) ;;
    *)
        echo "expected cpu or gpu and a command, found ${1:-nothing}" >&2
        exit 2
        ;;
esac
shift
version=$(sed -nE 's/^version = "([^"]+)"$/\1/p' pyproject.toml | head -n 1)
container=$(docker run --detach "${options[@]}" --read-only --tmpfs /tmp --cap-drop ALL \
    --publish 127.0.0.1:8001:8001 "glaim-stream/triton:$version" "${arguments[@]}")
trap 'docker rm --force "$container" > /dev/null' EXIT

deadline=$((SECONDS + 300))
until docker exec "$container" python3 /opt/glaim/probe.py --timeout 60 plant-pump beijing-air > /dev/null 2>&1; do
    if [ "$SECONDS" -ge "$deadline" ]; then
        docker logs --tail 60 "$container" >&2
        echo "expected an answer of every model within 300 s, found none" >&2
        exit 1
    fi
    sleep 3
done
"$@"
