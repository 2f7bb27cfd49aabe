"""Weights of the experts that fill a hole, learned from their recent errors. Arithmetic only."""

from glaim_stream.blend.mixture import blend
from glaim_stream.blend.reach import Scored, levels
from glaim_stream.blend.scores import WITHOUT_FORM, Expert, ModelScores, Predictions, Reaching, Scores

__all__ = [
    "WITHOUT_FORM",
    "Expert",
    "ModelScores",
    "Predictions",
    "Reaching",
    "Scored",
    "Scores",
    "blend",
    "levels",
]
