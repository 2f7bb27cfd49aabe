"""When a run writes where it is: as time passes within an epoch, and when it is asked to stop."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from torch import Tensor

from training import checkpoint as checkpoints
from training.checkpoint import Checkpoint
from training.errors import TrainingError
from training.fit.learner import Learner
from training.runtime import Interrupted, StopRequest

ADVICE = "try train.clip_norm=1 or a lower train.learning_rate"
ASK_EVERY = 8  # iterations after which several processes ask each other: each time costs them a message


class CheckpointWriter:
    """Holds the run's clock, and its last.pt within an epoch; `stop` is somebody's wish to end.

    Several processes write and stop at the same iteration: the states of all of them belong in the checkpoint.
    """

    def __init__(self, path: Path, state: Checkpoint, learner: Learner, stop: StopRequest, minutes: float) -> None:
        self.path, self.state, self.learner, self.stop = path, state, learner, stop
        self._every = 60 * minutes
        self._began = time.monotonic() - state.seconds
        self._written = time.monotonic()
        self._passed: tuple[int, Tensor, dict[str, Any]] | None = None

    @property
    def seconds(self) -> float:
        """How long the run has trained, all its sessions together; by the clock of the first process, and all ask."""
        return float(self.learner.world.told([time.monotonic() - self._began])[0])

    def wanted(self, batch: int) -> bool:
        """Whether to write after that many batches of the epoch: it is time, or somebody wants to stop."""
        world = self.learner.world
        if world.size > 1 and batch % ASK_EVERY:
            return False
        due = self._every > 0 and time.monotonic() - self._written >= self._every
        return world.any(due or self.stop.asked)

    def passed(self, batch: int, losses: Tensor, numpy_state: dict[str, Any]) -> None:
        """So many batches of the epoch are done; nothing is read from the device here."""
        self._passed = batch, losses, numpy_state

    def so_far(self) -> str:
        """The epoch's mean loss up to here, for a line; waits for the device."""
        batch, losses, _ = self._passed or (0, 0.0, {})
        return f", loss {float(losses) / max(batch, 1):.4f}"

    def settle(self) -> None:
        """Bring the place within the epoch into the state; all processes must call.

        Raises:
            TrainingError: the loss is not a number.
        """
        if self._passed is not None:
            batch, losses, numpy_state = self._passed
            self.state.batch, self.state.numpy_state = batch, numpy_state
            self.state.loss_sum = self.learner.world.total(float(losses))
            self._passed = None
            if not math.isfinite(self.state.loss_sum):
                raise TrainingError(f"epoch {self.state.epoch + 1}: the loss is {self.state.loss_sum}; {ADVICE}")

    def write(self) -> None:
        """last.pt as it is now, within an epoch; ends the run if somebody wants it to. All processes must call.

        Raises:
            Interrupted: somebody does.
        """
        state = self.state
        self.settle()
        state.seconds = self.seconds
        self.learner.capture(state)
        self.learner.capture_random(state)
        self.save()
        if self.learner.world.any(self.stop.asked):
            raise Interrupted(
                f"stopped in epoch {state.epoch + 1} after {state.batch} iterations of it, as {self.path} says: go on "
                "with --resume",
                self.stop.signal,
            )

    def save(self) -> None:
        """last.pt as the state has it."""
        if self.learner.world.first:
            checkpoints.save(self.state, self.path)
        self._written = time.monotonic()
