"""The flags of the demo."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from deploy.cache import CHECKOUT
from deploy.demo.scenario import BEIJING_FILE

_EPILOG = f"""\
environment:
  GLAIM_DATA     a folder with {BEIJING_FILE}: the Beijing stations are streamed instead of the plant
  GLAIM_KAFKA    brokers, host:port,...: used instead of a local Kafka, on topics with a prefix of their own
  GLAIM_TRITON   host:port of a gRPC endpoint that serves the model: used instead of a local Triton
  GLAIM_CACHE    where downloads are kept (default: .cache of the checkout)
"""


@dataclass(frozen=True)
class Options:
    """What was asked for; None where the scenario has its own default."""

    scenario: str | None
    hours: float | None
    groups: int | None
    speed: float | None
    hide: float
    seed: int
    imputer: str
    out: Path
    model_repository: Path
    data: Path | None


def parse(arguments: list[str] | None = None) -> Options:
    """Read the command line; exits with a sentence when it cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.demo",
        description="Stream sensor readings with holes through a real Kafka, the worker and a real Triton, and measure "
        "how well and how fast the holes are filled.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--scenario", choices=("plant", "beijing"), help="default: beijing where GLAIM_DATA has its file, else plant"
    )
    parser.add_argument("--hours", type=float, help="event time to stream (default: 24 for the plant, 640 for Beijing)")
    parser.add_argument("--groups", type=int, help="pumps or stations (default: 8 and 12)")
    parser.add_argument(
        "--speed", type=float, help="times real time; 0: as fast as Kafka takes it (default: by scenario)"
    )
    parser.add_argument("--hide", type=float, default=0.12, help="share of readings to withhold (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=2026, help="draws the days and what is hidden (default: %(default)s)"
    )
    parser.add_argument(
        "--imputer",
        choices=("triton", "local"),
        default="triton",
        help="local: the same TorchScript inside the worker (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="default: %(default)s")
    parser.add_argument(
        "--model-repository", type=Path, default=CHECKOUT / "model_repo", help="default: model_repo of the checkout"
    )
    given = parser.parse_args(arguments)
    for name, low, high in (("hours", 1, 24 * 365), ("groups", 1, 1000), ("speed", 0, 1e9)):
        value = getattr(given, name)
        if value is not None and not low <= value <= high:
            parser.error(f"--{name} must lie in {low}..{high:g}, found {value}")
    if not 0 < given.hide <= 0.5:
        parser.error(f"--hide must lie above 0 and at most 0.5, found {given.hide}")
    data = os.environ.get("GLAIM_DATA")
    return Options(data=Path(data).expanduser() if data else None, **vars(given))
