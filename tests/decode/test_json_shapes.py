"""Which of its three shapes a JSON record has."""

from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from tests.support import catalogue, json_record

NOW_MS = 1_700_000_000_000


def test_an_empty_sensor_name_is_a_name_that_no_group_has() -> None:
    """An empty list of readings or object of values holds no reading; an empty name still belongs to one."""
    record = json_record(4, group="g0", sensor="", ts=NOW_MS, value=1)
    readings, (reject,) = Decoder(GroupIndex(catalogue())).decode([record], now_ms=NOW_MS)
    assert len(readings) == 0
    assert (reject.offset, reject.cause) == (4, DeadLetterCause.UNKNOWN_SENSOR)
    assert reject.detail == "sensor '' is not one of group 'g0'"
