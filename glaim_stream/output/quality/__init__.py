"""Live accuracy: errors and coverage of filled values, summed over stretches of event time, as records."""

from glaim_stream.output.quality.cells import Column, JudgedCells, TruthSource, age_of
from glaim_stream.output.quality.kept import KeptKeys
from glaim_stream.output.quality.partition import PartitionQuality
from glaim_stream.output.quality.records import METHODS, Comparison, Record
from glaim_stream.output.quality.stretches import Stretch

__all__ = [
    "METHODS",
    "Column",
    "Comparison",
    "JudgedCells",
    "KeptKeys",
    "PartitionQuality",
    "Record",
    "Stretch",
    "TruthSource",
    "age_of",
]
