"""Letters as text for people, with the value decoded where that is possible."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from glaim_stream.core.budget import DEFAULT, Budget, OverBudget
from glaim_stream.core.printable import printable
from glaim_stream.core.times import text_of_ms
from glaim_stream.decode import ARROW_CONTENT_TYPE, read_bounded, shown
from glaim_stream.operate.dlq.letters import Letter

_MAX_HEX_BYTES = 512
_MAX_TEXT_CHARS = 4000


def describe_letter(
    letter: Letter,
    topic: str,
    input_topic: str,
    *,
    whole: bytes | None,
    held: bool,
    sent_back: bool,
    budget: Budget = DEFAULT,
) -> Iterator[str]:
    """Everything known about a letter, line by line, without characters that a terminal would interpret.

    Args:
        letter: the letter.
        topic: the letters' topic.
        input_topic: topic of the originals.
        whole: the original value, from the letter or from the input topic; None if neither has it.
        held: True if the input topic still has the original.
        sent_back: True if a receipt names the letter.
        budget: limit of a value that is shown.
    """
    facts = _facts(letter, topic, input_topic, whole=whole, held=held, sent_back=sent_back)
    yield from map(printable, facts)
    if whole is not None:
        yield printable(value_text(whole, letter.headers, budget), keep="\n\t")


def _facts(
    letter: Letter, topic: str, input_topic: str, *, whole: bytes | None, held: bool, sent_back: bool
) -> Iterator[str]:
    partition, offset = letter.place
    yield f"{topic} {partition}:{offset}, written {text_of_ms(letter.timestamp_ms)}"
    yield f"cause      {letter.cause}: {letter.detail}"
    if letter.topic != input_topic:
        here = f"not looked up, since the input topic is {input_topic}"
    else:
        here = "the input topic still holds it" if held else "the input topic no longer holds it"
    when = text_of_ms(letter.produced_ms) if letter.produced_ms >= 0 else "at an unknown time"
    yield f"original   {letter.topic} {letter.partition}:{letter.offset}, produced {when}; {here}"
    if letter.positions is not None:
        yield f"readings   {shown(letter.positions)} of the record, counted from 0"
    if letter.late_by_ms:
        dash = " to " if len(letter.late_by_ms) == 2 < len(letter.positions or ()) else ", "
        yield f"late by    {dash.join(f'{round(late, -3) // 1000} s' for late in letter.late_by_ms)}"
    if letter.requeued:
        yield f"came back  after it had been sent back {letter.requeued} times"
    if sent_back:
        yield "requeued   this letter has been sent back"
    if letter.cut_from_bytes is not None:
        kept = "the rest is from the input topic" if held else "the rest is gone"
        yield f"cut        the letter holds only {len(letter.value or b'')} of {letter.cut_from_bytes} bytes; {kept}"
    yield f"key        {_short(letter.key)}"
    for name, text in letter.headers:
        yield f"header     {name}: {_short(text)}"
    yield f"value      {'none' if whole is None else f'{len(whole)} bytes'}"


def value_text(value: bytes, headers: Sequence[tuple[str, bytes]], budget: Budget = DEFAULT) -> str:
    """A value as text: JSON and Arrow as documents, text unchanged, anything else as hexadecimal."""
    if any(name == "content-type" and text == ARROW_CONTENT_TYPE for name, text in headers):
        try:
            table = read_bounded(value, budget)
            try:
                return _cut("\n".join(_rows(table)))
            except (OverflowError, ValueError):  # a time outside of Python's calendar
                return _cut(table.to_string(preview_cols=100))
        except OverBudget as error:
            return f"not shown: {error}"
        except (pa.ArrowException, OSError, ValueError):
            return _hex(value)
    if len(value) > budget.record_json_bytes:
        return f"not shown: expected at most {budget.record_json_bytes} bytes of JSON, found {len(value)}"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _hex(value)
    try:
        return _cut(json.dumps(json.loads(text), indent=2, ensure_ascii=False))
    except (ValueError, RecursionError):
        return _cut(repr(text)) if not text.isprintable() else _cut(text)


def _rows(table: pa.Table) -> Iterator[str]:
    """The first rows as text, up to the limit of what is shown: a dictionary may share one long text."""
    length = 0
    for row in range(min(table.num_rows, 100)):
        text = _cut(str(table.slice(row, 1).to_pylist()[0]))
        yield text
        length += len(text)
        if length > _MAX_TEXT_CHARS:
            return


def _short(value: bytes | None) -> str:
    if value is None:
        return "none"
    try:
        return _cut(value.decode(), 200)
    except UnicodeDecodeError:
        return value[:100].hex(" ")


def _cut(text: str, most: int = _MAX_TEXT_CHARS) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"


def _hex(value: bytes) -> str:
    rows = [
        f"{start:08x}  {value[start : start + 16].hex(' '):47}"
        for start in range(0, min(len(value), _MAX_HEX_BYTES), 16)
    ]
    if len(value) > _MAX_HEX_BYTES:
        rows.append(f"... ({len(value) - _MAX_HEX_BYTES} more bytes)")
    return "\n".join(rows)
