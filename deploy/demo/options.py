"""The command-line options of the demo."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.cache import CHECKOUT
from deploy.demo.open_page import has_screen
from deploy.demo.scenario import BEIJING_FILE

_EPILOG = f"""\
environment:
  GLAIM_DATA     a folder with {BEIJING_FILE}: stream the Beijing stations instead of the plant
  GLAIM_KAFKA    brokers, host:port,...: use them instead of a local Kafka, with prefixed topic names
  GLAIM_TRITON   host:port of a gRPC endpoint that serves the model: use it instead of a local Triton
  GLAIM_CACHE    directory for downloads (default: .cache of the checkout)
"""


@dataclass(frozen=True)
class Options:
    """The given options; None if the default depends on the scenario."""

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
    open: bool
    keep: bool


def parse(arguments: list[str] | None = None) -> Options:
    """Parse the command line; exits with an error message if it is invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.demo",
        description="Stream sensor readings with holes through a real Kafka, the worker and a real Triton, and measure "
        "how well and how fast the holes are filled.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--scenario", choices=("plant", "beijing"), help="default: beijing if GLAIM_DATA contains its file, else plant"
    )
    parser.add_argument("--hours", type=float, help="event time to stream (default: 12 for the plant, 320 for Beijing)")
    parser.add_argument("--groups", type=int, help="number of pumps or stations (default: 8 or 12)")
    parser.add_argument(
        "--speed",
        type=float,
        help="multiple of real time; 0: as fast as Kafka accepts it (default: depends on the scenario)",
    )
    parser.add_argument("--hide", type=float, default=0.12, help="share of readings to withhold (default: %(default)s)")
    parser.add_argument(
        "--seed",
        type=int,
        default=2026,
        help="random seed of the simulated days and of the hidden readings (default: %(default)s)",
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
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=has_screen(os.environ) and sys.stdout.isatty(),
        help="open the worker's page in a browser while it streams (default: where a terminal and a screen are there)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave Kafka, Triton, the worker and its page running until Ctrl-C"
    )
    given = parser.parse_args(arguments)
    for name, low, high in (("hours", 1, 24 * 365), ("groups", 1, 1000), ("speed", 0, 1e9)):
        value = getattr(given, name)
        if value is not None and not low <= value <= high:
            parser.error(f"--{name} must be in {low}..{high:g}, found {value}")
    if not 0 < given.hide <= 0.5:
        parser.error(f"--hide must be above 0 and at most 0.5, found {given.hide}")
    data = os.environ.get("GLAIM_DATA")
    return Options(data=Path(data).expanduser() if data else None, **vars(given))
