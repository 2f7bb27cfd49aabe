"""Start a run with the weights of another run instead of random ones, for a second training on other masks.

    python -m training.fit.warm build/paper/Illness-block-0.3-full-s2021-ours benchmarks/paper/configs/illness.toml
    python -m training.fit benchmarks/paper/configs/illness.toml --resume

A model that has learned the paper's blocks learns the newest steps of a stream in a fraction of the time. The
averaged weights of the best epoch are taken; optimiser, learning rate and epoch count start from zero. Both runs must
have the same network, sensors and training rows.

Writes build/runs/<name>/last.pt, or to another directory with --out.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from training import checkpoint as checkpoints
from training import config as configs
from training.checkpoint import Checkpoint
from training.config import RunConfig
from training.errors import ConfigError, exits_with_errors


def warmed(before: Checkpoint, config: RunConfig) -> Checkpoint:
    """Return a checkpoint of `config` before its first epoch, with the weights of `before`.

    Raises:
        ConfigError: network or rows differ from those of `before`.
    """
    old = configs.build(json.loads(before.config))
    model = dataclasses.replace(config.model, num_variables=old.model.num_variables)
    pairs: list[tuple[str, object, object]] = [("model", old.model, model)]
    pairs += [(f"data.{name}", getattr(old.data, name), getattr(config.data, name)) for name in ("rows", "sensors")]
    if not config.data.rows:
        pairs.append(("data.split", old.data.split, config.data.split))
    for what, was, now in pairs:
        if was != now:
            raise ConfigError(f"expected the {what} of the run that gives the weights, {was}, found {now}")
    weights = dict(before.averaged)
    if "share" in weights:  # share of the correction: 1 in training, and chosen again after it
        weights["share"] = torch.ones_like(weights["share"])
    return dataclasses.replace(
        before, config=dataclasses.replace(config, model=model).to_json(), epoch=0, weights=weights, averaged=weights,
        optimiser={}, best_score=math.inf, best_epoch=0, history=[], seconds=0.0,
        git_commit=checkpoints.git_commit(), batch=0, loss_sum=0.0, numpy_state={}, torch_states=[], cuda_states=[],
    )  # fmt: skip


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after an error message."""
    parser = argparse.ArgumentParser(
        prog="python -m training.fit.warm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="source of the weights: a run's directory, or one of its checkpoints")
    parser.add_argument("config", type=Path, help="TOML file of the new run")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="as with training.fit")
    parser.add_argument("--out", type=Path, help="directory of the new run (default build/runs/<name>)")
    given = parser.parse_args(arguments)
    config = configs.read(given.config, given.set)
    target = (given.out or Path("build") / "runs" / config.name) / "last.pt"
    if target.exists():
        raise ConfigError(f"expected no run at {target.parent}, found its last.pt; give another --out")
    state = warmed(checkpoints.load(given.run), config)
    target.parent.mkdir(parents=True, exist_ok=True)
    checkpoints.save(state, target)
    print(f"wrote {target}; continue with python -m training.fit {given.config} --resume")
    return 0


if __name__ == "__main__":
    sys.exit(main())
