"""Compares the answers of a Triton with those of the same models in this process, on the CPU.

    python -m deploy.compare_triton --triton localhost:8001

Exits with 1 if a value differs by more than 0.01 of its sensor's standard deviation, or if a model does not answer.
The windows are drawn around the means of the sensors, a fifth of the cells missing. Differences of about 1e-6 are those
of float32; a GPU that computes in TF32 or half precision shows larger ones.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import numpy as np

from deploy.cache import CHECKOUT
from glaim_stream.core.contract import Contract, read_contract
from glaim_stream.core.errors import GlaimError
from glaim_stream.imputers import Windows
from glaim_stream.imputers.local import LocalImputer
from glaim_stream.imputers.remote import TritonImputer

MODELS = ("plant-pump", "beijing-air")  # the shipped ones
TOLERANCE = 0.01  # standard deviations: a hundredth of the models' errors
_SIZES = (1, 7, 64)  # single calls and both paths of the batcher
_DEADLINE_S = 120.0  # the first calls on a GPU compile kernels


def windows(contract: Contract, count: int, seed: int = 0) -> Windows:
    """`count` windows around the sensors' means, four fifths of the cells observed."""
    random = np.random.default_rng(seed)
    shape = (count, len(contract.sensors), contract.window)
    mean, std = (
        np.array([getattr(each, name) for each in contract.sensors])[None, :, None] for name in ("mean", "std")
    )
    observed = random.random(shape) < 0.8
    return Windows(
        contract.name, np.where(observed, random.normal(mean, std, shape), 0), observed, contract.emitted_steps
    )


async def difference(triton: str, contract: Contract, repository: Path) -> float:
    """The largest difference of the two answers, in standard deviations of the sensors.

    Raises:
        GlaimError: One of them does not answer, or has another shape.
    """
    contracts = {contract.name: contract}
    served, local = TritonImputer(triton, contracts, deadline_s=_DEADLINE_S), LocalImputer(repository, contracts)
    std = np.array([each.std for each in contract.sensors])[None, :, None]
    worst = 0.0
    try:
        await served.check()
        for size in _SIZES:
            asked = windows(contract, size, seed=size)
            there, here = await served.impute(asked), await local.impute(asked)
            worst = max(worst, float(np.nanmax(np.abs(there.values - here.values) / std)))
            if not np.array_equal(np.isnan(there.values), np.isnan(here.values)):
                return float("inf")
    finally:
        await served.close()
    return worst


def main(arguments: list[str] | None = None) -> int:
    """Compare every model and print its largest difference."""
    parser = argparse.ArgumentParser(prog="python -m deploy.compare_triton", description="Compare a Triton with here.")
    parser.add_argument(
        "--triton", default="localhost:8001", help="host:port of its gRPC endpoint (default: %(default)s)"
    )
    parser.add_argument("--repository", type=Path, default=CHECKOUT / "model_repo", help="the same models here")
    parser.add_argument("--model", action="append", help="only this model; repeatable (default: the shipped ones)")
    given = parser.parse_args(arguments)
    wrong = 0
    for name in given.model or MODELS:
        try:
            worst = asyncio.run(difference(given.triton, read_contract(given.repository / name), given.repository))
        except GlaimError as error:
            print(f"{name}: expected answers, found: {error}")
            wrong += 1
            continue
        print(f"{name}: differs by at most {worst:.1e} standard deviations, {TOLERANCE} allowed")
        wrong += worst > TOLERANCE
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
