"""Windows that are made again for one cell are those of the stream."""

import numpy as np
import pytest

from glaim_stream.core.vocabulary import FINAL, PROVISIONAL, UPGRADED
from glaim_stream.imputers import Imputed, Windows
from glaim_stream.operate.explain.estimates import CellEstimates
from tests.pipeline.form_streams import AWAY, NOW_MS, pipeline_of, records, rows_of
from tests.support import Neighbours

Seen = dict[int, list[tuple[bytes, bytes]]]  # windows by the time of their newest step


class Recording(Neighbours):
    """An imputer that keeps the windows that it gets."""

    def __init__(self) -> None:
        self.seen: Seen = {}

    async def impute(self, windows: Windows) -> Imputed:
        assert windows.end_ms is not None
        for place, end_ms in enumerate(windows.end_ms.tolist()):
            pair = windows.values[place].tobytes(), windows.observed[place].tobytes()
            self.seen.setdefault(end_ms, []).append(pair)
        return await super().impute(windows)


@pytest.mark.parametrize("batch", [7, 1000])
async def test_the_windows_of_a_cell_are_those_that_the_imputer_got(batch: int) -> None:
    topic, imputer = records(80), Recording()
    rows = await rows_of(pipeline_of(imputer, None, share=0.0), topic)
    holes = np.flatnonzero(~rows.observed & np.isfinite(rows.value) & (rows.group == 1))[::3]
    assert len(holes) > 5
    for row in holes.tolist():
        pipeline = pipeline_of(AWAY, None, share=0.0)
        estimates = CellEstimates(pipeline, "g1", int(rows.sensor[row]), int(rows.ts_ms[row]))
        for start in range(0, len(topic), batch):
            estimates.add(topic[start : start + batch], now_ms=NOW_MS)
        found = estimates.of_revision(int(rows.revision[row]))
        assert found is not None
        assert found.values is not None
        assert found.observed is not None
        assert (found.values.tobytes(), found.observed.tobytes()) in imputer.seen[found.end_ms]
        assert found.gap_age == rows.gap_age[row]
        assert found.end_ms - (11 - found.step) * 1000 == rows.ts_ms[row]
        assert not found.observed[rows.sensor[row], found.step]


def test_each_revision_has_its_window_and_a_reading_has_none() -> None:
    topic = records(80)
    estimates = CellEstimates(pipeline_of(AWAY, None, share=0.0), "g1", 1, 46_000)  # step 46 + 3 is a multiple of 7
    assert estimates.newest() is None
    estimates.add(topic, now_ms=NOW_MS)
    first, final = estimates.of_revision(PROVISIONAL), estimates.of_revision(FINAL)
    assert first is not None
    assert final is not None
    assert (first.step, final.step) == (11, 9)
    assert final.end_ms == first.end_ms + 2_000
    assert estimates.of_revision(UPGRADED) is final
    assert estimates.newest() is final
    measured = CellEstimates(pipeline_of(AWAY, None, share=0.0), "g1", 0, 46_000)
    measured.add(topic, now_ms=NOW_MS)
    found = measured.newest()
    assert found is not None
    assert (found.value, found.values) == (7.0, None)


def test_open_steps_have_windows_once_they_are_closed() -> None:
    topic = [each for each in records(47) if b'"g1"' in (each.value or b"")]
    estimates = CellEstimates(pipeline_of(AWAY, None, share=0.0), "g1", 1, 46_000)
    estimates.add(topic, now_ms=NOW_MS)
    assert estimates.newest() is None
    estimates.close()
    found = estimates.newest()
    assert found is not None
    assert (found.revision, found.step) == (PROVISIONAL, 11)


async def test_a_silence_has_windows_until_its_gap_is_too_old() -> None:
    """The wall clock goes on where no reading comes: steps 20 to 27, with a largest gap of 8."""
    topic = records(20, groups=1, constant=False)
    found = {}
    for step in range(19, 31):
        estimates = CellEstimates(pipeline_of(AWAY, None, share=0.0), "g0", 2, step * 1000)
        estimates.add(topic, now_ms=NOW_MS)
        estimates.close()
        assert (estimates.newest() is None) == (step > 19)
        estimates.close(silence=True)
        found[step] = estimates.newest()
    filled = [step for step, each in found.items() if each is not None and each.values is not None]
    assert filled == list(range(20, 28))
