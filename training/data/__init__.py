"""Files to series, series to windows, and the cells that training hides in them.

Everything in training and `benchmarks.paper` that reads, cuts or hides goes through here.
"""

from training.data.batches import DeviceWindows, Drawn, HostWindows, Tensors, ahead, draw, tensors, windows_on
from training.data.masks import SEGMENTS, FittedMasks, MaskSpec, block_cells, edge_cells, random_cells, silent_sensors
from training.data.outages import Bools
from training.data.series import DataSpec, Floats, GroupSeries, Scale, Split, fit_scale, split
from training.data.tables import load, read
from training.data.windows import WindowBatch, WindowSet, fixed_batches, hide, seeded

__all__ = [
    "SEGMENTS",
    "Bools",
    "DataSpec",
    "DeviceWindows",
    "Drawn",
    "FittedMasks",
    "Floats",
    "GroupSeries",
    "HostWindows",
    "MaskSpec",
    "Scale",
    "Split",
    "Tensors",
    "WindowBatch",
    "WindowSet",
    "ahead",
    "block_cells",
    "draw",
    "edge_cells",
    "fit_scale",
    "fixed_batches",
    "hide",
    "load",
    "random_cells",
    "read",
    "seeded",
    "silent_sensors",
    "split",
    "tensors",
    "windows_on",
]
