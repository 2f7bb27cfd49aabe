"""JSON lines are written back with their own characters."""

import pytest

from glaim_stream.errors import SettingsError
from glaim_stream.tables.json_lines import LinesTable
from glaim_stream.tables.text import Beside, Changes

LINES = b'{"t": 1, "a": 1.50, "note": "a \\"null\\" {"}\n\n{ "t":2,"a" : null }\r\n{"t": 3}'


def test_values_are_replaced_and_absent_members_added() -> None:
    table = LinesTable(LINES)

    out = b"".join(table.written(Changes({1: {1: "1.60", 2: "1.70"}})))

    assert table.names == ["t", "a", "note"]
    assert table.texts(1, range(3)) == ["1.50", "", ""]
    assert out == LINES.replace(b": null }", b": 1.60 }").replace(b'{"t": 3}', b'{"t": 3, "a": 1.70}')


def test_flags_are_members() -> None:
    table = LinesTable(b'{"t":1,"a":null}\n')

    beside = {1: Beside(["a_method", "a_lower"], [['"gaussian"', ""]])}

    assert b"".join(table.written(Changes({1: {0: "2"}}, beside))) == (
        b'{"t":1,"a":2, "a_method": "gaussian", "a_lower": null}\n'
    )


@pytest.mark.parametrize("line", [b"[1]", b'{"a":1', b'{"a":1,"a":2}', b'{"a":1} x', b"{1:2}"])
def test_a_line_that_is_no_object_is_a_sentence_with_its_number(line: bytes) -> None:
    with pytest.raises(SettingsError, match="line 2: expected a JSON object"):
        LinesTable(b'{"a":1}\n' + line)
