"""The schedule of a run's checkpoints: regularly within an epoch, and when the run is to stop."""

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
AGREE_EVERY = 8  # iterations between agreements of several processes: each costs a message


class CheckpointWriter:
    """Writer of last.pt, with the run's clock; `stop` is a shutdown request.

    Several processes write and stop at the same iteration, because the checkpoint holds the states of all of them.
    """

    def __init__(self, path: Path, state: Checkpoint, learner: Learner, stop: StopRequest, minutes: float) -> None:
        self.path, self.state, self.learner, self.stop = path, state, learner, stop
        self._every = 60 * minutes
        self._began = time.monotonic() - state.seconds
        self._written = time.monotonic()
        self._passed: tuple[int, Tensor, dict[str, Any]] | None = None

    @property
    def seconds(self) -> float:
        """Training time of the run over all sessions, by the clock of the first process. All processes must call."""
        return float(self.learner.world.broadcast([time.monotonic() - self._began])[0])

    def due(self, batch: int) -> bool:
        """Whether to write after that many batches of the epoch: the interval has passed, or the run is to stop."""
        world = self.learner.world
        if world.size > 1 and batch % AGREE_EVERY:
            return False
        passed = self._every > 0 and time.monotonic() - self._written >= self._every
        return world.any(passed or self.stop.requested)

    def note(self, batch: int, losses: Tensor, numpy_state: dict[str, Any]) -> None:
        """Note the number of finished batches of the epoch; nothing is read from the device here."""
        self._passed = batch, losses, numpy_state

    def so_far(self) -> str:
        """Return the epoch's mean loss so far, for a log line; waits for the device."""
        batch, losses, _ = self._passed or (0, 0.0, {})
        return f", loss {float(losses) / max(batch, 1):.4f}"

    def settle(self) -> None:
        """Copy the position within the epoch into the state. All processes must call.

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
        """Write last.pt within an epoch; end the run after a stop request. All processes must call.

        Raises:
            Interrupted: a stop was requested.
        """
        state = self.state
        self.settle()
        state.seconds = self.seconds
        self.learner.capture(state)
        self.learner.capture_random(state)
        self.save()
        if self.learner.world.any(self.stop.requested):
            raise Interrupted(
                f"stopped in epoch {state.epoch + 1} after {state.batch} iterations, saved in "
                f"{self.path}: continue with --resume",
                self.stop.signal,
            )

    def save(self) -> None:
        """Write the state to last.pt."""
        if self.learner.world.first:
            checkpoints.save(self.state, self.path)
        self._written = time.monotonic()
