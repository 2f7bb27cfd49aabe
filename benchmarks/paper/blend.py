"""The blend of three answers to a window: the closed form, the network over it, and the network without it.

Without the closed form the network corrects its own prior, as a share of its training windows lacks the form. Where
levels drift that answer holds when the closed form does not. The convex weights depend on a cell's reach alone, its
distance from the nearest observed cell of its sensor: lone cells and long gaps differ in the best answer. One set,
chosen on validation windows, serves all patterns and rates of a data set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from glaim_stream.form import convex_weights
from training.data import Bools, Floats, WindowBatch
from training.evaluate import model_fill
from training.network import GLAIM, REACHES, reach_classes

ANSWERS = ("form", "network", "without_form")
_LEAST_CELLS = 200  # fewest cells of a class with its own weights


def classes_of(observed: Bools) -> NDArray[np.int64]:
    """Return the class of each cell's distance from the nearest observed one of its sensor, [B, C, T]."""
    found: NDArray[np.int64] = reach_classes(torch.from_numpy(observed), list(REACHES)).numpy()
    return found


@dataclass(frozen=True)
class Blend:
    """Weights of each answer by class of reach, [4] each; not negative, with the sum 1 over the answers."""

    weights: dict[str, tuple[float, ...]]

    def answers(self, network: GLAIM, values: Floats, observed: Bools) -> dict[str, Floats]:
        """Return each answer to filled windows, and the blend; [B, C, T] each."""
        found = answers(network, values, observed)
        return {"blend": self.of(found, observed), **found}

    def of(self, found: Mapping[str, Floats], observed: Bools) -> Floats:
        """Return the blend [B, C, T] of the answers; observed cells have their value, which is that of the form."""
        classes = classes_of(observed)
        mixed = np.zeros_like(found["form"])
        for name in ANSWERS:
            mixed += np.array(self.weights[name], np.float32)[classes] * found[name]
        return np.where(observed, found["form"], mixed)

    def __str__(self) -> str:
        return "; ".join(f"{name} {' '.join(f'{w:.2f}' for w in each)}" for name, each in self.weights.items())


def answers(network: GLAIM, values: Floats, observed: Bools) -> dict[str, Floats]:
    """Return the answers to windows that the closed form has filled, [B, C, T] each."""
    fill = model_fill(network)
    bare = np.where(observed, values, np.float32(np.nan))
    return {"form": values, "network": fill(values, observed), "without_form": fill(bare, observed)}


def fit_blend(network: GLAIM, validation: Sequence[WindowBatch]) -> tuple[Blend, float]:
    """Choose the weights, and return them with the mean logarithm of each window's mean squared error by the blend.

    Every window counts equally: its errors are divided by the root of the sum of their squares. A class
    of fewer than 200 cells has the weights of all cells together.
    """
    every = [answers(network, batch.values, batch.observed) for batch in validation]
    blend = _fitted(every, validation)
    logs = [np.zeros(0)]
    for batch, found in zip(validation, every, strict=True):
        error = np.where(batch.hidden, blend.of(found, batch.observed) - batch.truth, 0.0)
        squared, count = np.square(error).sum(axis=(1, 2), dtype=np.float64), batch.hidden.sum(axis=(1, 2))
        logs.append(np.log(squared[count > 0] / count[count > 0] + 1e-12))
    of_windows = np.concatenate(logs)
    return blend, float(of_windows.mean()) if len(of_windows) else 0.0


def _fitted(every: Sequence[Mapping[str, Floats]], validation: Sequence[WindowBatch]) -> Blend:
    errors, classes = [np.zeros((0, len(ANSWERS)))], [np.zeros(0, np.int64)]
    for batch, found in zip(validation, every, strict=True):
        of_cells = classes_of(batch.observed)
        for row in range(len(batch.values)):
            hidden = batch.hidden[row]
            if hidden.any():
                each = np.stack([(found[name][row] - batch.truth[row])[hidden] for name in ANSWERS], axis=1)
                each = each.astype(np.float64)
                errors.append(each / np.sqrt(np.square(each).sum() + 1e-12))
                classes.append(of_cells[row][hidden])
    everything, of_cells = np.concatenate(errors), np.concatenate(classes)
    whole = convex_weights(everything) if len(everything) else np.array([0.0, 1.0, 0.0])
    weights = []
    for number in range(len(REACHES) + 1):
        same = everything[of_cells == number]
        weights.append(convex_weights(same) if len(same) >= _LEAST_CELLS else whole)
    return Blend({name: tuple(float(each[place]) for each in weights) for place, name in enumerate(ANSWERS)})
