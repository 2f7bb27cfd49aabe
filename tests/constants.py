"""Runs `glaim-stream` with other constants than its own, for tests that cannot wait as long as a plant can.

python -m tests.constants MODULE:NAME=JSON... COMMAND ARGUMENT...
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from functools import reduce
from importlib import import_module

STOP_GRACE = "glaim_stream.worker.run:STOP_GRACE_S"
LOOP_SILENCE = "glaim_stream.worker.run:LOOP_SILENCE_S"
BREAKER_REST = "glaim_stream.build:BREAKER_REST_S"
SCORE_LEAST = "glaim_stream.pipeline.pipeline:FEWEST_WINDOWS"
BATCHES_IN_FLIGHT = "glaim_stream.worker.app:BATCHES_IN_FLIGHT"
TOPIC_LOOK_S = "glaim_stream.worker.lost_offsets:TOPIC_LOOK_S"
_GIVEN = re.compile(r"([\w.]+):([\w.]+)=(.+)")


def program(constants: Mapping[str, float]) -> list[str]:
    """Arguments of an interpreter that runs `glaim-stream` with these constants."""
    given = [f"{name}={json.dumps(value)}" for name, value in constants.items()]
    return ["-m", "tests.constants", *given] if given else ["-m", "glaim_stream"]


def replace(module: str, path: str, value: object) -> None:
    """Replace a constant, which must be there."""
    *owners, name = path.split(".")
    owner = reduce(getattr, owners, import_module(module))
    assert hasattr(owner, name), f"{module} has no {path}"
    setattr(owner, name, value)


def _main(arguments: list[str]) -> None:
    while arguments and (found := _GIVEN.fullmatch(arguments[0])):
        replace(found[1], found[2], json.loads(found[3]))
        arguments = arguments[1:]
    from glaim_stream.commands.main import main

    sys.argv = ["glaim-stream", *arguments]
    main()


if __name__ == "__main__":
    _main(sys.argv[1:])
