"""Random readings and window rules, and comparable forms of the rows and outages."""

import math
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import strategies as st

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.windows import Applied, Outage, PartitionWindows
from tests.support import STEP_MS, Event, Row, catalogue, columns, rows_of

NAN = math.nan

times = st.one_of(
    st.integers(-3, 12).map(lambda step: step * STEP_MS),  # step edges
    st.integers(-4_000, 14_000),
    st.integers(-2_000, 40_000),  # jumps of more than a window
    st.sampled_from([-1_500_000_000_000, 1_700_000_000_000]),  # huge jumps
)
# Small integers, whose sums are exact in any order, so that `mean` does not depend on the order of arrival.
values = st.one_of(st.integers(-8, 8).map(float), st.just(NAN))


@st.composite
def event(draw: st.DrawFn, models: int = 1) -> Event:
    time_ms = draw(times)
    ahead_ms = draw(st.sampled_from([-2_000, 0, 0, 0, 700, 2_500, 6_000, 9_000]))
    model = draw(st.integers(0, models - 1))
    group = draw(st.integers(0, 2)) * models + model
    quality = draw(st.integers(0, 1))
    return Event(time_ms, draw(values), group, draw(st.integers(0, 1)), model, quality, time_ms - ahead_ms)


events = st.lists(event(), max_size=40)
near_events = events.map(
    lambda many: [each for each in many if abs(each.time_ms) < 10**9]
)  # few enough steps for the reference


@st.composite
def catalogues(draw: st.DrawFn) -> Catalogue:
    window, max_gap, cadence = draw(st.sampled_from([(6, 1, 1), (6, 3, 1), (6, 3, 2), (8, 5, 3)]))
    return catalogue(
        sensors=[{"id": "s0"}, {"id": "s1", "cadence_s": cadence}],
        window=window,
        max_gap=max_gap,
        bucket=draw(st.sampled_from(["last", "mean"])),
        lateness_s=draw(st.sampled_from([0, 0.5, 2, 3.25])),
        revise_after=draw(st.sampled_from([0, 1, 2])),
        max_ahead_s=draw(st.sampled_from([0, 1.5, 300])),
    )


def fed(windows: PartitionWindows, batch: list[Event], first_offset: int = 0, *, arrival_ms: int = 0) -> Applied:
    return windows.feed(columns(batch, first_offset=first_offset), arrival_ms=arrival_ms)


def feed(windows: PartitionWindows, batch: list[Event], first_offset: int = 0) -> list[Row]:
    return rows_of(fed(windows, batch, first_offset).closed)


def in_batches(
    windows: PartitionWindows, sequence: list[Event], cuts: Iterable[int], first_offset: int = 0
) -> tuple[list[Row], list[Outage]]:
    """Feed the sequence in batches and return its rows and outages."""
    rows: list[Row] = []
    outages: list[Outage] = []
    edges = sorted({0, len(sequence), *(cut for cut in cuts if cut < len(sequence))})
    for start, end in pairwise(edges):
        part = fed(windows, sequence[start:end], first_offset + start)
        rows += rows_of(part.closed)
        outages += part.outages
    return rows, outages


def by_key(rows: list[Row]) -> list[Row]:
    """Sort rows, because the groups of one step may be in any order."""
    return sorted(rows, key=lambda row: (*row.key, row.revision))


def by_group(outages: list[Outage]) -> list[Outage]:
    """Sort outages by group; the events of one group keep their order."""
    return sorted(outages, key=lambda outage: outage.group)


def newest(rows: list[Row]) -> dict[tuple[int, int, int, int], Row]:
    """The row with the highest revision of each cell; the later row if equal."""
    kept: dict[tuple[int, int, int, int], Row] = {}
    for row in rows:
        if row.key not in kept or row.revision >= kept[row.key].revision:
            kept[row.key] = row
    return kept
