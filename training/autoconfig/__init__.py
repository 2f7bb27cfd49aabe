"""Chooses the configuration of a data file that comes without one; `training.fit` calls it."""

from training.autoconfig.catalogue_entry import Shown, catalogue
from training.autoconfig.from_file import configure, next_steps
from training.autoconfig.recipe import MINUTES

__all__ = [
    "MINUTES",
    "Shown",
    "catalogue",
    "configure",
    "next_steps",
]
