"""A dark group counts until it returns, also after its windows are gone, and at most for seven days."""

from typing import Literal

from glaim_stream.windows import Outage
from glaim_stream.worker.dark_groups import FORGET_MS, DarkGroups

NAMES = ["pump-1", "pump-2"]


def event(group: int, kind: Literal["dark", "speaks"]) -> Outage:
    return Outage(model_index=0, group=group, kind=kind, ts_ms=0, last_ts_ms=0, by_clock=False)


def test_a_group_counts_until_it_returns() -> None:
    dark = DarkGroups(NAMES)
    dark.update([event(0, "dark"), event(1, "dark"), event(0, "dark")], 0)
    assert len(dark) == 2
    dark.update([], 86_400_000)
    assert len(dark) == 2
    dark.update([event(0, "speaks")], 86_400_000)
    assert len(dark) == 1


def test_a_code_that_goes_to_another_group_does_not_end_the_outage_of_the_former_one() -> None:
    names = ["pump-1"]
    dark = DarkGroups(names)
    dark.update([event(0, "dark")], 0)
    names[0] = "pump-9"
    dark.update([event(0, "speaks")], 1)
    assert len(dark) == 1


def test_a_group_is_forgotten_after_seven_days() -> None:
    dark = DarkGroups(NAMES)
    dark.update([event(0, "dark")], 0)
    dark.update([], FORGET_MS)
    assert len(dark) == 1
    dark.update([], FORGET_MS + 1)
    assert len(dark) == 0


def test_rebuilt_windows_bring_their_dark_groups() -> None:
    dark = DarkGroups(NAMES)
    dark.restart([(0, 1)], 0)
    assert len(dark) == 1
    dark.update([event(1, "speaks")], 1)
    assert len(dark) == 0
