"""Output messages as columns of rows."""

import numpy as np
import pytest

from glaim_stream.operate.audit.output_rows import OutputReader, same_values
from glaim_stream.output import Rows, encode
from tests.operate.audit.tables import COLUMNS

METER = 123_456_789.12


def message() -> bytes:
    """One observed row with the value of a meter."""
    none, one = np.zeros(1, np.int32), np.ones(1, np.bool_)
    times, value, unknown = np.zeros(1, np.int64), np.array([METER]), np.array([np.nan])
    row = Rows(
        none, none, times, times, value, one, none.astype(np.int8), none.astype(np.uint32), unknown, unknown, none,
        none.astype(np.int16), one, none,
    )  # fmt: skip
    ((value_bytes, _),) = encode(row, group_names=["g1"], sensor_names=["a"], version_names=[""])
    return value_bytes


@pytest.mark.parametrize("other", [METER + 2**-26, np.nan, -METER])
def test_a_value_of_64_bits_is_the_same_to_the_last_bit_only(other: float) -> None:
    assert same_values(np.array([METER]), np.array([METER])).all()
    assert not same_values(np.array([other]), np.array([METER])).any()


def test_exactly_once_counts_from_the_first_transaction_after_the_last_message_without_one() -> None:
    reader = OutputReader(COLUMNS)
    for headers, counted_from in (
        ([("glaim-once-from", b"3")], 3),
        ([], None),
        ([("glaim-model", b"m"), ("glaim-once-from", b"70")], 70),
        ([("glaim-once-from", b"90")], 70),  # the next owner, after a restart
        ([("glaim-once-from", b"many")], None),
    ):
        reader.add(message(), headers)
        assert reader.once_from == counted_from
    assert reader.rows().once.tolist() == [True, False, True, True, False]
