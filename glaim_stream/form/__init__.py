"""The closed form: missing cells of a window as their expectation under a Gaussian that is fitted in seconds."""

from glaim_stream.form import artefact, packing
from glaim_stream.form.baselines import distances, interpolation, interpolation_at, last_value, nearest
from glaim_stream.form.decimals import decimals_in, learned_decimals, with_decimals
from glaim_stream.form.explain import CARRIED, EXPECTED, LEVEL, LINE, RELATION, explain
from glaim_stream.form.fit import Fitted, fit, refused_if_unsolvable, rows_needed
from glaim_stream.form.form import LARGEST, ClosedForm
from glaim_stream.form.hiding import CASES, stream_gaps
from glaim_stream.form.kinds import (
    Kind,
    are,
    by_kind,
    carried_value,
    differences,
    kind_of,
    resets,
    simple_value,
    with_directions,
)
from glaim_stream.form.levels import with_ridge
from glaim_stream.form.limits import Limits, limits_of, range_of
from glaim_stream.form.moments import with_free_levels
from glaim_stream.form.phase import DAY_MS, phase_for
from glaim_stream.form.report import INTERPOLATION, LAST_VALUE, Report
from glaim_stream.form.series import FormSeries
from glaim_stream.form.simplex import convex_weights
from glaim_stream.form.tiles import MOST_CELLS

__all__ = [
    "CARRIED",
    "CASES",
    "DAY_MS",
    "EXPECTED",
    "INTERPOLATION",
    "LARGEST",
    "LAST_VALUE",
    "LEVEL",
    "LINE",
    "MOST_CELLS",
    "RELATION",
    "ClosedForm",
    "Fitted",
    "FormSeries",
    "Kind",
    "Limits",
    "Report",
    "are",
    "artefact",
    "by_kind",
    "carried_value",
    "convex_weights",
    "decimals_in",
    "differences",
    "distances",
    "explain",
    "fit",
    "interpolation",
    "interpolation_at",
    "kind_of",
    "last_value",
    "learned_decimals",
    "limits_of",
    "nearest",
    "packing",
    "phase_for",
    "range_of",
    "refused_if_unsolvable",
    "resets",
    "rows_needed",
    "simple_value",
    "stream_gaps",
    "with_decimals",
    "with_directions",
    "with_free_levels",
    "with_ridge",
]
