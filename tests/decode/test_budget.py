"""Records that ask for more memory than they may have: each is a dead letter, and their neighbours are decoded."""

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from glaim_stream.core.budget import Budget
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.decode.arrow_streams import claim_of
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from tests.decode.bombs import HEADERS, JSON_NAMES, NAMES, NOW_MS, bombs, json_bombs, long_rows, records, stream
from tests.support import Record, catalogue, json_record

PEAK = """
import pickle, resource, sys
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from tests.support import catalogue
records = pickle.load(open(sys.argv[1], "rb"))
decoder = Decoder(GroupIndex(catalogue()))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
readings = rejects = 0
for part in decoder.decode_parts(records, now_ms=1_700_000_000_000):
    readings += len(part.readings)
    rejects += len({reject.offset for reject in part.rejects})
print(peak() - before, readings, rejects)
"""


def test_no_record_takes_more_than_its_budget(tmp_path: Path) -> None:
    """All of them in one poll, by the peak of the process."""
    poll = records()
    file = tmp_path / "poll.pickle"
    file.write_bytes(pickle.dumps(poll))
    done = subprocess.run([sys.executable, "-c", PEAK, str(file)], capture_output=True, text=True, check=True)
    grown_mb, readings, rejects = map(int, done.stdout.split())
    assert (readings, rejects) == (len(poll) // 2 + 1, len(poll) // 2)
    assert grown_mb < 250


@pytest.mark.parametrize("name", [*NAMES, *JSON_NAMES])
def test_each_becomes_one_letter_with_its_cause(name: str) -> None:
    headers, value = (HEADERS, bombs()[name]) if name in NAMES else ([], json_bombs()[name])
    good = json_record(2, group="g0", sensor="s0", ts=NOW_MS, value=1)
    decoder = Decoder(GroupIndex(catalogue()))
    readings, rejects = decoder.decode([Record(value, 1, None, headers), good], now_ms=NOW_MS)
    assert readings.offset.tolist() == [2]
    assert {reject.offset for reject in rejects} == {1}
    if name == "a long name in every row":  # the name is held once, and the readings are within the budget
        assert {reject.cause for reject in rejects} == {DeadLetterCause.UNKNOWN_SENSOR}
        assert len({id(reject.detail) for reject in rejects}) <= 101
    else:
        (reject,) = rejects
        assert reject.cause is DeadLetterCause.TOO_LARGE
        assert reject.detail.startswith("expected at most ")


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_a_claim_is_what_the_stream_decompresses_to(compression: str | None) -> None:
    batch = long_rows(1000)
    plain = claim_of(stream(batch))
    claim = claim_of(stream(batch, compression=compression))
    assert (claim.readings, claim.entries) == (1000, 2)
    assert plain.size_bytes <= claim.size_bytes <= plain.size_bytes * 1.1


def test_a_wide_claim_counts_the_readings_of_a_row() -> None:
    rows = pa.record_batch({"group": ["g0"] * 3, "ts": [1] * 3, "s0": [1.0] * 3, "s1": [1.0] * 3})
    assert claim_of(stream(rows)).readings == 6


@pytest.mark.parametrize("cut", [1, 7, 8, 100, 300, 500])
def test_a_stream_that_ends_early_is_undecodable(cut: int) -> None:
    whole = stream(long_rows(1000), compression="zstd")
    readings, rejects = Decoder(GroupIndex(catalogue())).decode([Record(whole[:cut], 0, None, HEADERS)], now_ms=NOW_MS)
    assert (len(readings), len(rejects)) == (0, 1)


def test_a_poll_beyond_the_budget_of_a_batch_is_decoded_in_parts() -> None:
    value = stream(long_rows(4, pa.array(["s0", "s1"] * 2)))
    records = [Record(value, offset, None, HEADERS) for offset in range(5)]
    decoder = Decoder(GroupIndex(catalogue()), Budget(batch_readings=8))
    parts = list(decoder.decode_parts(records, now_ms=NOW_MS))
    assert [(part.until, len(part.readings)) for part in parts] == [(2, 8), (4, 8), (5, 4)]
    whole, _ = decoder.decode(records, now_ms=NOW_MS)
    assert whole.offset.tolist() == [offset for offset in range(5) for _ in range(4)]
    assert whole.position.tolist() == [0, 1, 2, 3] * 5


def test_json_counts_with_what_it_takes_once_decoded() -> None:
    records = [json_record(offset, group="g0", sensor="s0", ts=NOW_MS, value=1) for offset in range(5)]
    size = 4 * len(records[0].value or b"")
    decoder = Decoder(GroupIndex(catalogue()), Budget(batch_bytes=2 * size))
    assert [part.until for part in decoder.decode_parts(records, now_ms=NOW_MS)] == [2, 4, 5]


def test_a_part_has_the_rejects_of_its_own_records() -> None:
    value = stream(long_rows(4, pa.array(["s0", "s1"] * 2)))
    records = [Record(b"broken" if offset in (0, 2) else value, offset, None, HEADERS) for offset in range(4)]
    decoder = Decoder(GroupIndex(catalogue()), Budget(batch_readings=4))
    parts = list(decoder.decode_parts(records, now_ms=NOW_MS))
    assert [[reject.offset for reject in part.rejects] for part in parts] == [[0, 2], []]
    assert [part.until for part in parts] == [3, 4]
