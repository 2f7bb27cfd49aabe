#!/usr/bin/env bash
# Builds the images, runs the whole system of deploy/compose.yaml, waits for a filled reading and stops everything.
#
#   deploy/images/smoke.sh            Triton on the CPU
#   deploy/images/smoke.sh gpu        on a GPU, with NVIDIA's container toolkit
#   KEEP=1 deploy/images/smoke.sh     leave it running: Grafana at http://localhost:3000
#
# Needs Docker with compose 2.24 or later, about 25 GB of disk for Triton's image, and network access.
# Exit code 0: a model filled a reading. 1: no model did, and the logs show why.
set -euo pipefail
cd "$(dirname "$0")/../.."

profile=${1:-cpu}
case $profile in
    cpu | gpu) ;;
    *)
        echo "expected cpu or gpu, found $profile" >&2
        exit 2
        ;;
esac
docker compose version > /dev/null || {
    echo "expected docker with the compose plugin, found none" >&2
    exit 2
}

compose() { docker compose -f deploy/compose.yaml --profile "$profile" "$@"; }

finish() {
    code=$?
    if [ "$code" -ne 0 ]; then
        compose ps --all || true
        compose logs --tail 60 worker "triton-$profile" topics producer kafka || true
    fi
    if [ "${KEEP:-0}" = 1 ]; then
        echo "left running; stop it with: docker compose -f deploy/compose.yaml --profile $profile down --volumes"
    else
        compose down --volumes
    fi
    exit "$code"
}
trap finish EXIT

# Returns once the worker has been started, which happens after Triton has answered an inference and the topics exist.
compose up --build --detach

echo "waiting for the worker to be ready ..."
deadline=$((SECONDS + 300))
until [ "$(compose ps --format '{{.Health}}' worker)" = healthy ]; do
    if [ "$SECONDS" -ge "$deadline" ]; then
        echo "the worker was not ready after 300 s" >&2
        exit 1
    fi
    sleep 3
done

# The worker must not run as root, and its root file system must be read-only.
compose exec -T worker python -c 'import os; assert os.getuid() == 10001, os.getuid()'
if compose exec -T worker python -c 'open("/opt/glaim/written", "w")' 2> /dev/null; then
    echo "the worker's root file system is writable" >&2
    exit 1
fi

# The producer sends the readings of the past hours at once, so the first rows appear soon. A model must fill some.
echo "waiting for filled readings ..."
rows=$(compose exec -T worker glaim-stream tail --from-beginning --only-imputed --limit 500 --timeout 120 --format jsonl)
filled=$(grep -cE '"method": "(model|blend)"' <<< "$rows" || true)
if [ "$filled" -eq 0 ]; then
    echo "expected rows filled by a model, found none among $(grep -c . <<< "$rows" || true)" >&2
    exit 1
fi
grep -m 1 -E '"method": "(model|blend)"' <<< "$rows"
echo "success: a model filled $filled of 500 imputed readings"
