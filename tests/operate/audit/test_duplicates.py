"""Duplicate rows: for each rule a pair that just breaks it and a pair that just complies."""

from typing import Any

import numpy as np
import pytest

from glaim_stream.core.vocabulary import UPGRADED, Method
from glaim_stream.operate.audit.arrivals import Arrivals
from glaim_stream.operate.audit.duplicates import Fallbacks, check_duplicates
from glaim_stream.operate.audit.expected import expected_rows
from glaim_stream.operate.audit.keys import Keys
from glaim_stream.operate.audit.output_rows import OutputRows
from glaim_stream.operate.audit.report import Findings
from glaim_stream.operate.database import database
from glaim_stream.windows import HORIZON
from tests.operate.audit.tables import G1, G2, H1, STEP_MS, arrived, key_of, keys_of, no_rows, output, row

NAMES = ("identical", "closed_by_clock", "other_method", "conflicting")
STEP = 500


def duplicates(arrivals: Arrivals, rows: OutputRows, keys: Keys) -> Findings:
    with database(None) as own:
        fallbacks = Fallbacks(own)
        fallbacks.add(rows)
        return check_duplicates(
            expected_rows(arrivals, keys), rows, key_of(rows, keys), keys, fallbacks=fallbacks, examples=5
        )


def duplicate_kind(*given: OutputRows, arrivals: Arrivals | None = None) -> str:
    """The kind of the only duplicate pair; "" if there is none."""
    arrivals = arrived() if arrivals is None else arrivals
    rows = output(no_rows(), *given)
    keys = keys_of(rows, arrivals)
    found = duplicates(arrivals, rows, keys)
    assert found.counts["rows"] == len(rows)
    counts = [found.counts[f"{name}_duplicates"] for name in NAMES[:3]] + [found.problems["conflicting"].count]
    assert sum(counts) <= 1
    return "".join(name for name, count in zip(NAMES, counts, strict=True) if count)


def pair(value: float, duplicate: float, *, changes: dict[str, Any] | None = None, **both: Any) -> str:
    return duplicate_kind(row(STEP, value, **both), row(STEP, duplicate, **(both | (changes or {}))))


@pytest.mark.parametrize("method", [Method.MODEL, Method.GAUSSIAN])
def test_values_of_two_versions_may_differ(method: Method) -> None:
    assert pair(1.0, 2.0, method=method, changes={"version": 1}) == "other_method"
    assert pair(1.0, 2.0, method=method) == "conflicting"
    assert pair(1.0, 2.0, observed=True, changes={"version": 1}) == "conflicting"


def test_rows_with_different_keys_or_revisions_are_no_duplicates() -> None:
    assert duplicate_kind() == ""
    assert duplicate_kind(row(STEP, 1.0), row(STEP + 1, 2.0)) == ""
    assert duplicate_kind(row(STEP, 1.0), row(STEP, 2.0, revision=1)) == ""
    assert duplicate_kind(row(STEP, 1.0), row(STEP, 2.0, sensor=1)) == ""
    assert duplicate_kind(row(STEP, 1.0), row(STEP, 2.0, group=G2)) == ""


@pytest.mark.parametrize("observed", [True, False])
def test_equal_rows_are_identical_duplicates(observed: bool) -> None:
    assert pair(1.0, 1.0, observed=observed) == "identical"
    assert pair(np.nan, np.nan, observed=observed) == "identical"
    assert pair(np.nan, 1.0, observed=observed) == pair(1.0, np.nan, observed=observed) == "conflicting"


def test_imputed_values_may_differ_by_one_unit_of_the_resolution() -> None:
    assert pair(1.0, 1.01) == pair(1.01, 1.0) == "identical"
    assert pair(1.0, 1.0101) == pair(1.0101, 1.0) == "conflicting"
    assert pair(1.0, 1.01, observed=True) == "conflicting"


def test_values_without_resolution_may_differ_by_a_hundred_thousandth() -> None:
    assert pair(1.0, 1.000009, sensor=1) == "identical"
    assert pair(-1.0, -1.000009, sensor=1) == "identical"
    assert pair(1.0, 1.000012, sensor=1) == "conflicting"


def test_large_rounded_values_may_differ_by_their_last_bit() -> None:
    """At 1e15 neighbouring numbers are 0.125 apart, twelve times the resolution."""
    assert pair(1e15, 1e15 + 0.125) == pair(-1e15, -1e15 - 0.125) == "identical"
    assert pair(1e15, 1e15 + 0.25) == "conflicting"


def test_observed_zeros_of_other_signs_are_not_the_same() -> None:
    assert pair(0.0, -0.0, observed=True) == "conflicting"
    assert pair(0.0, -0.0) == "identical"


@pytest.mark.parametrize("changes", [{"observed": True}, {"gap_age": 2}, {"event_time_ms": 1}, {"quality": 1}])
def test_other_columns_must_be_equal(changes: dict[str, Any]) -> None:
    assert pair(1.0, 1.0, changes=changes) == "conflicting"


def test_a_provisional_row_may_differ() -> None:
    assert pair(1.0, 2.0, final=False) == "closed_by_clock"
    assert pair(1.0, 1.0, changes={"final": False}) == "closed_by_clock"
    assert duplicate_kind(row(STEP, 1.0, final=False), row(STEP, 1.0)) == "closed_by_clock"


def test_rows_after_a_provisional_pair_with_the_same_key_may_differ() -> None:
    def counts(step: int) -> tuple[int, int]:
        rows = output(
            row(STEP, 1.0, final=False), row(STEP, 2.0, final=False), row(step, 3.0, revision=1),
            row(step, 4.0, revision=1),
        )  # fmt: skip
        arrivals = arrived()
        keys = keys_of(rows, arrivals)
        found = duplicates(arrivals, rows, keys)
        return found.counts["closed_by_clock_duplicates"], found.problems["conflicting"].count

    assert counts(STEP) == (2, 0)
    assert counts(STEP + 1) == (1, 1)


def test_imputed_rows_of_different_methods_may_differ() -> None:
    other = {"method": Method.INTERPOLATION}
    assert pair(1.0, 2.0, changes=other) == "other_method"
    assert pair(1.0, 2.0, observed=True, changes=other) == "conflicting"
    assert duplicate_kind(row(STEP, 1.0), row(STEP, 2.0, observed=True, **other)) == "conflicting"
    assert duplicate_kind(row(STEP, 1.0, observed=True), row(STEP, 2.0, **other)) == "conflicting"


def test_imputed_rows_of_an_upgrade_may_differ() -> None:
    assert pair(1.0, 2.0, revision=UPGRADED) == "other_method"
    assert pair(1.0, 2.0, revision=UPGRADED - 1) == pair(1.0, 2.0, revision=UPGRADED + 1) == "conflicting"
    assert pair(1.0, 2.0, revision=UPGRADED, observed=True) == "conflicting"


@pytest.mark.parametrize(
    ("group", "earliest", "latest"),
    [(G1, STEP - HORIZON - 8, STEP + 2), (H1, STEP - HORIZON - 8, STEP + 1)],  # window and revise_after of its model
)
@pytest.mark.parametrize("fallback", [Method.GAUSSIAN, Method.INTERPOLATION, Method.LAST_VALUE])
def test_blends_may_differ_near_a_fallback_value(group: int, earliest: int, latest: int, fallback: Method) -> None:
    def with_fallback_at(step: int, *, of: int = group, method: Method = fallback) -> str:
        blend = {"group": group, "method": Method.BLEND}
        other = row(step, 0.0, group=of, sensor=1, method=method)
        return duplicate_kind(row(STEP, 1.0, **blend), row(STEP, 2.0, **blend), other)

    assert with_fallback_at(earliest) == with_fallback_at(latest) == "other_method"
    assert with_fallback_at(earliest - 1) == with_fallback_at(latest + 1) == "conflicting"
    assert with_fallback_at(STEP, of=G1 if group == H1 else H1) == "conflicting", (
        "the fallback belongs to another model"
    )
    assert with_fallback_at(STEP, method=Method.MODEL) == "conflicting"


def test_a_nearby_fallback_excuses_only_blends() -> None:
    fallback = row(STEP, 0.0, sensor=1, method=Method.LAST_VALUE)
    model = {"method": Method.MODEL}
    assert duplicate_kind(row(STEP, 1.0, **model), row(STEP, 2.0, **model), fallback) == "conflicting"


def test_the_wall_clock_may_close_a_step_between_two_of_its_readings() -> None:
    both = {"observed": True, "method": Method.OBSERVED}
    several = arrived((G1, 0, STEP * STEP_MS, 1.0), (G1, 0, STEP * STEP_MS + 1, 2.0))
    alone = arrived((G1, 0, STEP * STEP_MS, 1.0))
    rows = row(STEP, 1.0, **both), row(STEP, 2.0, **both)
    assert duplicate_kind(*rows, arrivals=several) == "closed_by_clock"
    assert duplicate_kind(*rows, arrivals=alone) == "conflicting"
    assert duplicate_kind(rows[0], row(STEP, 1.0, gap_age=2, **both), arrivals=alone) == "conflicting"
    assert duplicate_kind(rows[0], row(STEP, 3.0, **both), arrivals=several) == "conflicting", (
        "no reading has this value"
    )
    assert duplicate_kind(*(row(STEP + 1, value, **both) for value in (1.0, 2.0)), arrivals=several) == "conflicting"
    assert duplicate_kind(*(row(STEP - 1, value, **both) for value in (1.0, 2.0)), arrivals=several) == "conflicting"
    assert duplicate_kind(row(STEP, 1.0), row(STEP, 2.0, **both), arrivals=several) == "conflicting", "one is imputed"


def test_the_wall_clock_may_publish_the_mean_of_some_readings() -> None:
    both = {"observed": True, "method": Method.OBSERVED, "group": H1}
    several = arrived((H1, 0, STEP * 30_000, 1.0), (H1, 0, STEP * 30_000 + 1, 2.0))
    assert duplicate_kind(row(STEP, 1.0, **both), row(STEP, 1.5, **both), arrivals=several) == "closed_by_clock"


def test_a_conflict_is_reported_with_both_values() -> None:
    rows = output(row(STEP, 1.0, revision=1), row(STEP, 2.0, revision=1))
    arrivals = arrived()
    keys = keys_of(rows, arrivals)
    found = duplicates(arrivals, rows, keys)
    assert [each.detail for each in found.problems["conflicting"].first] == ["revision 1 has 1.0 and 2.0"]


@pytest.mark.parametrize(("first", "second", "repeated"), [(True, True, 1), (True, False, 0), (False, True, 0)])
def test_two_transactions_never_publish_the_same_row(first: bool, second: bool, repeated: int) -> None:
    """Whatever the rows contain; beside a worker without transactions a row may come twice."""
    for value in (1.0, 9.0):
        rows = output(row(STEP, 1.0, once=first), row(STEP, value, once=second), row(STEP + 1, 1.0, once=True))
        keys = keys_of(rows, arrived())
        found = duplicates(arrived(), rows, keys)
        assert found.problems["repeated"].count == repeated
