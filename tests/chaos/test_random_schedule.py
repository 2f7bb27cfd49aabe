"""The schedule and the input of random runs: drawn from the seed alone, overlapping, and of every kind."""

from tests.chaos.randomised import feed, schedule
from tests.chaos.randomised.run import RECOVERY_S, SECONDS

SEEDS = range(1, 11)
STEPS = round(SECONDS) + RECOVERY_S
START_MS = 1_700_000_000_000


def test_a_seed_repeats_its_faults_and_its_input() -> None:
    assert schedule.draw(7, SECONDS) == schedule.draw(7, SECONDS) != schedule.draw(8, SECONDS)
    assert feed.draw(7, START_MS, STEPS) == feed.draw(7, START_MS, STEPS)
    later = feed.draw(7, START_MS + 5_000, STEPS)
    assert [message.due_ms - 5_000 for message in later] == [m.due_ms for m in feed.draw(7, START_MS, STEPS)]


def test_ten_seeds_have_every_kind_of_fault() -> None:
    found = {(fault.lane, fault.kind) for seed in SEEDS for fault in schedule.draw(seed, SECONDS)}
    assert {(lane.rstrip(" 01"), kind) for lane, kind in schedule.KINDS} == {
        (lane.rstrip(" 01"), kind) for lane, kind in found
    }


def test_ten_seeds_have_every_kind_of_input() -> None:
    messages = [message for seed in SEEDS for message in feed.draw(seed, START_MS, STEPS)]
    assert {message.fate for message in messages} == {"undecodable", "malformed", feed.ACCEPTED}
    fates = {reading.fate for message in messages for reading in message.readings}
    assert fates == {"unknown-group", "unknown-sensor", "out-of-limits", "too-late", feed.ACCEPTED}
    assert any(message.headers == feed.ARROW and len(message.readings) > 100 for message in messages)
