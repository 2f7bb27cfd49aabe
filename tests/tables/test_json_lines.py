"""JSON lines are written back with their own characters."""

import json

import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.files.content import typed_table
from glaim_stream.tables.json_lines import LinesTable
from glaim_stream.tables.text import Beside, Changes

LINES = b'{"t": 1, "a": 1.50, "note": "a \\"null\\" {"}\n\n{ "t":2,"a" : null }\r\n{"t": 3}'


def test_values_are_replaced_and_absent_members_added() -> None:
    table = LinesTable(LINES)

    out = b"".join(table.written(Changes({1: {1: "1.60", 2: "1.70"}})))

    assert table.names == ["t", "a", "note"]
    assert table.texts(1, range(3)) == ["1.50", "", ""]
    assert out == LINES.replace(b": null }", b": 1.60 }").replace(b'{"t": 3}', b'{"t": 3, "a": 1.70}')


NESTED = b'{"group": "p", "ts": 1, "values": {"a": 1.5, "b": null}}\n{"ts": 2, "values": {}, "group": "p"}\n'


def test_values_inside_another_object_are_replaced_and_added_there() -> None:
    table = LinesTable(NESTED)
    assert table.names == ["group", "ts", "a", "b"]
    assert table.texts(2, range(2)) == ["1.5", ""]
    out = b"".join(table.written(Changes({2: {1: "1.7"}, 3: {0: "2.0", 1: "2.1"}})))
    assert out == NESTED.replace(b"null", b"2.0").replace(b'"values": {}', b'"values": {"a": 1.7, "b": 2.1}')


def test_a_null_or_absent_outer_object_is_made() -> None:
    raw = b'{"t": 1, "x": {"a": 1}}\n{"t": 2, "x": null}\n{"t": 3}\n'
    table = LinesTable(raw)
    assert table.names == ["t", "a"]
    out = b"".join(table.written(Changes({1: {1: "5", 2: "6"}})))
    assert out == b'{"t": 1, "x": {"a": 1}}\n{"t": 2, "x": {"a": 5}}\n{"t": 3, "x": {"a": 6}}\n'


def test_names_of_several_outer_objects_are_paths_and_rows_are_inserted_as_objects() -> None:
    raw = b'{"t": 1, "x": {"a": 1, "b": {"c": 3}}, "y": {"a": 2}}\n'
    table = LinesTable(raw)
    assert table.names == list(typed_table(raw, "jsonl", "f").column_names)
    out = b"".join(table.written(Changes({}, inserted={0: [["2", "7", "8", "9"]]})))
    assert json.loads(out.splitlines()[1]) == {"t": 2, "x": {"a": 7, "b": {"c": 8}}, "y": {"a": 9}}


def test_a_key_that_is_twice_in_an_inner_object_is_a_sentence() -> None:
    with pytest.raises(SettingsError, match=r"line 1: expected a JSON object.*the key 'a' twice"):
        LinesTable(b'{"x": {"a": 1, "a": 2}}')


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
