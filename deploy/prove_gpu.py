"""Proves on a machine with a GPU what could not be proved without one, and prints one page.

    python -m deploy.prove_gpu               # or make prove-gpu
    python -m deploy.prove_gpu --list        # what is unproven, and the command that proves it

Needs an NVIDIA GPU with its driver, Docker with NVIDIA's container toolkit, and some 40 GB of disk. Exits with 0 only
if every command has run and succeeded; without a GPU it says so and exits with 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.bases import read_bases
from deploy.cache import CHECKOUT
from deploy.release import version_of_checkout

_TIMEOUT_S = 3600
_LINES = 3  # lines of each output on the page; the log has all of them
LOG = Path("build") / "prove-gpu.log"


@dataclass(frozen=True)
class Claim:
    """Something that only a real machine can show, and the command that shows it, in bash and from the checkout."""

    text: str
    command: str


def claims() -> list[Claim]:
    """The unproven parts, each after those that it depends on."""
    triton, version = read_bases()["TRITON_IMAGE"].reference, version_of_checkout()
    training = f"docker run --rm --gpus all --read-only --tmpfs /tmp --workdir /tmp glaim-stream/training:{version}"
    fit = (
        "python -m glaim_stream.feed.plant --out plant.parquet --days 2 --seed 1"
        " && python -m training.fit --data plant.parquet --separator . --minutes 2 --device cuda --name proof"
        " --model-repo /tmp/models || test \\$? -eq 3"
    )
    worker = f"docker run --rm --read-only --tmpfs /tmp --entrypoint python glaim-stream/worker:{version}"
    # `python -v` names without quotes a source that it compiles.
    compiled = "2>&1 | ( ! grep '^# code object from /' )"
    return [
        Claim("Containers get the GPU", f"docker run --rm --gpus all {triton} nvidia-smi -L"),
        Claim("All three images build on their real bases", "deploy/images/build.sh"),
        Claim(
            "The worker's image, on its real base, compiles nothing at the start",
            f"set -o pipefail; {worker} -v -c 'import glaim_stream.worker.app' {compiled}",
        ),
        Claim(
            "libtorch of the Triton image answers as torch does, on the CPU",
            "deploy/images/served.sh cpu python -m deploy.compare_triton",
        ),
        Claim(
            "libtorch of the Triton image answers as torch does, on the GPU",
            "deploy/images/served.sh gpu python -m deploy.compare_triton",
        ),
        Claim(
            "Windows a second of a GPU, for glaim-stream size --windows-a-gpu",
            "deploy/images/served.sh gpu python -m benchmarks.serving --triton localhost:8001",
        ),
        Claim("Kafka, Triton on the GPU and the worker fill readings together", "deploy/images/smoke.sh gpu"),
        Claim(
            "The training image trains on the GPU; code 3: no better than its baselines", f'{training} sh -c "{fit}"'
        ),
    ]


def gpus() -> list[str]:
    """The GPUs that NVIDIA's driver lists; empty without a driver or a GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    run = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=60, check=False)
    return [line for line in run.stdout.splitlines() if line.startswith("GPU ")] if run.returncode == 0 else []


def prove(wanted: Sequence[Claim], log: Path) -> bool:
    """Run every command, print its outcome, and append its output to the log; True if all succeeded."""
    log.parent.mkdir(parents=True, exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # `python` is that of the checkout
    good = True
    with log.open("w") as file:
        for claim in wanted:
            start_s = time.monotonic()
            # `timeout` stops the whole group, so that scripts can remove their containers.
            limited = ["/usr/bin/env", "timeout", "--kill-after", "60", str(_TIMEOUT_S), "bash", "-c", claim.command]
            run = subprocess.run(
                limited, cwd=CHECKOUT, env=os.environ | {"PATH": path}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            output, succeeded = run.stdout, run.returncode == 0
            ended_late = run.returncode in (124, 137)
            status = f"no end within {_TIMEOUT_S} s" if ended_late else f"exit code {run.returncode}"
            file.write(f"$ {claim.command}\n{output}\n")
            good &= succeeded
            outcome = "proved" if succeeded else f"FAILED, {status}"
            print(f"{claim.text}: {outcome} ({time.monotonic() - start_s:.0f} s)\n  $ {claim.command}")
            for line in output.strip().splitlines()[-_LINES:]:
                print(f"  {line}")
            sys.stdout.flush()
    return good


def main(arguments: list[str] | None = None) -> int:
    """Print the page."""
    parser = argparse.ArgumentParser(prog="python -m deploy.prove_gpu", description="Prove what needs a GPU.")
    parser.add_argument("--list", action="store_true", help="print what is unproven, and run nothing")
    given = parser.parse_args(arguments)
    if given.list:
        for claim in claims():
            print(f"{claim.text}\n  $ {claim.command}")
        return 0
    found = gpus()
    if not found:
        for claim in claims():
            print(f"{claim.text}: not proved\n  $ {claim.command}")
        print("no GPU: expected `nvidia-smi -L` to list one, found none; nothing was run", file=sys.stderr)
        return 1
    print("\n".join(found))
    good = prove(claims(), CHECKOUT / LOG)
    print(f"The whole output is in {LOG}.")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
