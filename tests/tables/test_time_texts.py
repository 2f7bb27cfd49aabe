"""New times are written like those of the file."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.tables.time_texts import writer_of

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("own", "following"),
    [
        (("2026-03-28 23:30:00",), ("2026-03-29 00:30:00",)),
        (("2026-03-28T23:30:00+01:00",), ("2026-03-29T00:30:00+01:00",)),
        (("28.03.2026 23:30",), ("29.03.2026 00:30",)),
        (("3/28/2026 11:30 PM",), ("3/29/2026 12:30 AM",)),
        (("28/03/2026", "23.30.00"), ("29/03/2026", "00.30.00")),
        (("28-Mar-2026 23:30:00",), ("29-Mar-2026 00:30:00",)),
        (("202603282330",), ("202603290030",)),
        (("1774737000",), ("1774740600",)),
        (("1774737000000",), ("1774740600000",)),
        (("1774737000.0",), ("1774740600.0",)),
    ],
)
def test_the_hour_after_a_time_is_written_alike(own: tuple[str, ...], following: tuple[str, ...]) -> None:
    zone = ZoneInfo("Europe/Berlin")
    time_ms = int(datetime(2026, 3, 28, 23, 30, tzinfo=zone).timestamp() * 1000)

    assert writer_of([own], [time_ms], zone)(time_ms + HOUR_MS) == following


def test_times_in_an_unknown_form_are_a_sentence() -> None:
    with pytest.raises(SettingsError, match="cannot be written alike"):
        writer_of([("week 3",)], [0], ZoneInfo("UTC"))
