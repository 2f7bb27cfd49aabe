"""Closed forms for training windows, each fitted without the rows of the windows that it fills.

The starts of the training windows are cut into folds that follow each other in time. The form of a fold is fitted on
rows that none of its windows sees, for all groups, with a gap in between: a window, or a twentieth of the rows where
these are few. In sample a form is far better than on new rows (Illness, blocks at 0.3: MSE 0.004 and 0.08), and a
network that learns from such windows leans on it too much. A gap takes rows from the fit: with a whole window Illness
keeps 43 % of them, and the forms are two to three times worse than at the gap 0, so worse than they are in use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.form import ClosedForm
from training import closed_form
from training.closed_form import TimedFill
from training.data import GroupSeries, Scale

GAP_SHARE = 20  # the gap is at most the rows divided by this
Say = Callable[[str], None]


@dataclass(frozen=True)
class FoldForms:
    """The form of each fold, and the form of the whole training part for validation and test.

    edges: int64 [folds + 1], first window start of each fold, and the end.
    """

    folds: tuple[ClosedForm, ...]
    whole: ClosedForm
    edges: NDArray[np.int64]

    def of(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fold of each training window, by the row of its first step."""
        return np.searchsorted(self.edges, starts, side="right") - 1

    def fills(self, scale: Scale) -> list[TimedFill]:
        """Return the fill of each fold's standardised windows."""
        return [closed_form.fill_of(form, scale) for form in self.folds]


def edges_of(rows: int, window: int, folds: int) -> NDArray[np.int64]:
    """Cut the starts of the windows of `rows` rows into folds of about equal size."""
    edges: NDArray[np.int64] = np.linspace(0, rows - window + 1, folds + 1).round().astype(np.int64)
    return edges


def without(train: GroupSeries, first: int, last: int, window: int) -> GroupSeries:
    """Remove the readings that windows with starts in [first, last) see, and the readings of the gap."""
    gap = min(window, train.rows // GAP_SHARE)
    values = train.values.copy()
    values[:, :, max(0, first - gap) : last - 1 + window + gap] = np.nan
    return dataclasses.replace(train, values=values)


def fit_folds(
    train: GroupSeries, window: int, folder: Path, say: Say, folds: int, validation: GroupSeries | None = None, *,
    only_numbers: bool = False, only_plain: bool = False,
) -> FoldForms:  # fmt: skip
    """Fit the forms, or read the forms that an earlier call for the same file left in `folder`.

    Args:
        train: Training rows.
        window: T, steps.
        folder: Folder of the forms.
        say: Receives a line for each form that was fitted.
        folds: Number of folds; 0: the form of the whole part alone.
        validation: Rows on which a form of few rows chooses its constants (`training.closed_form.fit`).
        only_numbers: Fill every sensor by the Gaussian, whatever its values look like.
        only_plain: Try no variant but the plain one.

    Raises:
        DataError: there are too few rows.
    """
    folder = folder / (train.sha256[:8] + ("-numbers" if only_numbers else "") + ("-plain" if only_plain else ""))
    edges = edges_of(train.rows, window, folds)
    parts = {"whole": train}
    parts |= {f"fold-{k}-of-{folds}": without(train, int(edges[k]), int(edges[k + 1]), window) for k in range(folds)}
    forms = {}
    for name, part in parts.items():
        if not (folder / name / FORM_FILE).is_file():
            fitted = closed_form.fit(part, window, validation, only_numbers=only_numbers, only_plain=only_plain)
            (folder / name).mkdir(parents=True, exist_ok=True)
            fitted.form.save(folder / name)
            say(f"closed form of {name}: {fitted.form.digest[:8]}")
        forms[name] = ClosedForm.load(folder / name)
    return FoldForms(tuple(forms[f"fold-{k}-of-{folds}"] for k in range(folds)), forms["whole"], edges)
