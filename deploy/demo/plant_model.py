"""Trains the demo's model in one command: simulates the plant, trains, scores and exports.

    python -m deploy.demo.plant_model

Equal to writing build/plant.parquet with `python -m glaim_stream.feed.plant` and passing it to `python -m
training.fit`, which also gets all further flags. Takes half an hour on one core; results repeat on the same type of
processor.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from glaim_stream.feed.plant import simulate, write_parquet
from training import fit

DATA = Path("build") / "plant.parquet"
CONFIG = Path("training") / "configs" / "plant-pump.toml"
DAYS, SEED = 21, 1  # two weeks to train on, three days each to validate and to score


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code of the training."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if {"-h", "--help"} & set(given):
        print(f"{(__doc__ or '').strip()}\n\nFor the flags see python -m training.fit --help.")
        return 0
    write_parquet(simulate(DAYS, seed=SEED), DATA)
    return fit.main([str(CONFIG), "--data", str(DATA), *([] if "--resume" in given else ["--fresh"]), *given])


if __name__ == "__main__":
    sys.exit(main())
