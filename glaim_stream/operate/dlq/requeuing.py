"""Sends letters back to the input topic, each once: receipts among the letters record which have been sent.

A letter goes to the partition that its record came from, with the record's key and headers and the number of times
that it has been sent back; if it is rejected again, its next letter carries that number. The receipt follows the
acknowledgement: a crash between the two sends a letter twice, which is harmless, since a reading that is already there
changes nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from glaim_stream.core.settings import Settings
from glaim_stream.decode import REQUEUED_HEADER
from glaim_stream.kafka import Progress, partitions_of, producer_options, reader
from glaim_stream.operate.dlq.letters import Letter, LetterFilter, Place, receipt
from glaim_stream.operate.dlq.subset import keep_readings
from glaim_stream.operate.dlq.surveying import find_original, read_letters, survey

_CHUNK = 200  # letters between receipts
_CHUNK_READINGS = 1_000_000  # most readings between receipts, since each takes 40 bytes of memory


@dataclass(slots=True)
class RequeueReport:
    """The outcome for the letters that match the filter."""

    matched: int = 0
    sent: int = 0  # letters sent; in a dry run, letters that would be sent
    readings: int = 0  # readings in the sent letters; a letter of a whole record counts as one
    already_sent: int = 0  # letters skipped because a receipt names them
    came_back: int = 0  # letters skipped because their records had been sent back before
    other_topic: int = 0  # letters of another input topic
    beyond_limit: int = 0
    lost: list[Place] = field(default_factory=list)  # cut letters whose whole record the input topic no longer holds
    failed: list[tuple[Place, str]] = field(default_factory=list)  # letters with the broker's error


async def requeue(
    settings: Settings,
    topic: str,
    chosen: LetterFilter,
    *,
    send: bool,
    again: bool = False,
    returned: bool = False,
    limit: int | None = None,
    on_progress: Progress = lambda done, total: None,
) -> RequeueReport:
    """Send letters back.

    Args:
        settings: connection to Kafka, and the input topic.
        topic: the letters' topic.
        chosen: selection of letters.
        send: False for a dry run.
        again: include letters that a receipt names.
        returned: include letters of records that had been sent back before and were rejected again.
        limit: the most letters to send.
        on_progress: called with the number of letters read and the total.

    Raises:
        SettingsError: the broker or a topic is not there.
    """
    known = await survey(settings, topic, chosen)
    report = RequeueReport(matched=known.letters)
    partitions = await partitions_of(settings, settings.input_topic)
    seen = 0
    async with (
        reader(settings) as consumer,
        AIOKafkaProducer(**producer_options(settings)) as producer,
    ):
        chunk: list[tuple[Letter, bytes | None, bytes | None]] = []
        async for letter in read_letters(settings, topic, chosen):
            if not isinstance(letter, Letter):
                continue
            seen += 1
            if letter.topic != settings.input_topic:
                report.other_topic += 1
            elif letter.place in known.requeued and not again:
                report.already_sent += 1
            elif letter.requeued and not returned:
                report.came_back += 1
            elif limit is not None and report.sent + len(chunk) >= limit:
                report.beyond_limit += 1
            elif (record := await _record(consumer, settings, letter)) is None:
                report.lost.append(letter.place)
            else:
                chunk.append((letter, *record))
            if len(chunk) == _CHUNK or sum(len(each.positions or ()) for each, _, _ in chunk) > _CHUNK_READINGS:
                await _send(producer, settings, topic, partitions, chunk, report, send=send)
                chunk = []
                on_progress(seen, known.letters)
        await _send(producer, settings, topic, partitions, chunk, report, send=send)
        on_progress(seen, known.letters)
    return report


async def _record(consumer: Any, settings: Settings, letter: Letter) -> tuple[bytes | None, bytes | None] | None:
    """(key, value) to send; None if the letter was cut and the input topic no longer holds its record."""
    key, value = letter.key, letter.value
    if letter.cut_from_bytes is not None:
        whole = await find_original(consumer, settings, letter)
        if whole is None:
            return None
        key, value = whole.key, whole.value
    if value is not None and letter.positions is not None:
        value = keep_readings(value, letter.headers, letter.positions, settings.budget)
    return key, value


async def _send(
    producer: AIOKafkaProducer,
    settings: Settings,
    topic: str,
    partitions: list[int],
    chunk: list[tuple[Letter, bytes | None, bytes | None]],
    report: RequeueReport,
    *,
    send: bool,
) -> None:
    if not chunk:
        return
    sent = [letter for letter, _, _ in chunk]
    if send:
        pending = []
        for letter, key, value in chunk:
            headers = [*letter.headers, (REQUEUED_HEADER, str(letter.requeued + 1).encode())]
            partition = letter.partition if letter.partition in partitions else None
            pending.append(_acknowledged(producer, settings.input_topic, key, value, partition, headers))
        errors = await asyncio.gather(*pending)
        report.failed += [(letter.place, error) for letter, error in zip(sent, errors, strict=True) if error]
        sent = [letter for letter, error in zip(sent, errors, strict=True) if not error]
        if sent:
            value, headers = receipt([letter.place for letter in sent])
            await producer.send_and_wait(topic, value=value, headers=headers)
    report.sent += len(sent)
    report.readings += sum(1 if letter.positions is None else len(letter.positions) for letter in sent)


async def _acknowledged(
    producer: AIOKafkaProducer,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    partition: int | None,
    headers: list[tuple[str, bytes]],
) -> str:
    """Wait for the acknowledgement of a message; return the error, empty if there is none."""
    try:
        await producer.send_and_wait(topic, value=value, key=key, partition=partition, headers=headers)
    except KafkaError as error:
        return repr(error)
    return ""
