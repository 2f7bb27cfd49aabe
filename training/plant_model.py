"""The demo's model from nothing, in one command: simulate the plant, train, score, export.

    python -m training.plant_model

Same as writing build/plant.parquet with `python -m glaim_stream.feed.plant` and handing it to `python -m training.fit`;
further flags go to the latter. A few minutes on one core; the same numbers every time on the same kind of processor.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from glaim_stream.feed.plant import simulate, write_parquet
from training.fit import command as fit

DATA = Path("build") / "plant.parquet"
CONFIG = Path("training") / "configs" / "plant-pump.toml"
DAYS, SEED = 21, 1  # two weeks to train on, three days each to validate and to score


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code of the training."""
    write_parquet(simulate(DAYS, seed=SEED), DATA)
    given = list(sys.argv[1:] if arguments is None else arguments)
    return fit.main([str(CONFIG), "--data", str(DATA), *([] if "--resume" in given else ["--fresh"]), *given])


if __name__ == "__main__":
    sys.exit(main())
