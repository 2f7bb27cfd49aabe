"""Windows to values: the imputer protocol and its implementations."""

from glaim_stream.imputers.blended_rung import BlendedRung, no_values
from glaim_stream.imputers.closed_form import ClosedFormImputer, WatchedForm, version_of
from glaim_stream.imputers.first_answer import empty_windows, first_answers, typical_windows
from glaim_stream.imputers.ladder import Ladder, State
from glaim_stream.imputers.protocol import ExpertRung, Imputed, Rung, WindowImputer, Windows
from glaim_stream.imputers.simple import Interpolation, LastValue, interpolated

__all__ = [
    "BlendedRung",
    "ClosedFormImputer",
    "ExpertRung",
    "Imputed",
    "Interpolation",
    "Ladder",
    "LastValue",
    "Rung",
    "State",
    "WatchedForm",
    "WindowImputer",
    "Windows",
    "empty_windows",
    "first_answers",
    "interpolated",
    "no_values",
    "typical_windows",
    "version_of",
]
