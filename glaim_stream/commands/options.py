"""Flags that several commands share. A flag that is not given comes from the environment (GLAIM_*), or its default."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.flags import SettingsFlags

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer

    from glaim_stream.core.settings import Settings
    from glaim_stream.kafka import Range


# Flags of settings, which have the setting's name; their help is made of the setting (SettingsCommand).
Text = Annotated[str | None, typer.Option()]
File = Annotated[Path | None, typer.Option()]
Pairs = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE")]
NewestOnly = Annotated[
    bool | None,
    typer.Option(
        "--newest-only/--all-revisions",
        help="With --out: write only the newest row of each group, sensor and time, or all of them. A hole has a "
        "provisional row, and later a final one. [default: newest only]",
    ),
]
_OFFSET = re.compile(r"(?:(\d+):)?(\d+)")
OFFSETS = "Offset for all partitions, or PARTITION:OFFSET, repeatable."


@dataclass(frozen=True)
class StreamFlags(SettingsFlags):
    """Flags of the commands that need everything that a worker needs."""

    kafka: Text = None
    kafka_extra: Pairs = None
    catalogue: File = None
    model_repository: File = None
    imputer: Text = None
    triton: Text = None
    input_topic: Text = None
    output_topic: Text = None
    topic_names: Pairs = None
    quality_topic: Text = None
    health_topic: Text = None
    consumer_group: Text = None


@dataclass(frozen=True)
class OffsetFlags:
    """Flags that choose a range of the input topic by offset and partition."""

    from_offset: Annotated[
        list[str] | None, typer.Option("--from-offset", help=f"First topic offset to read. {OFFSETS}")
    ] = None
    until_offset: Annotated[list[str] | None, typer.Option(help=f"First topic offset not to read. {OFFSETS}")] = None
    partition: Annotated[list[int] | None, typer.Option(help="Read only this topic partition; repeatable.")] = None

    @property
    def given(self) -> bool:
        """True where any of them was given."""
        return bool(self.from_offset or self.until_offset or self.partition)

    async def ranges(
        self, settings: Settings, consumer: AIOKafkaConsumer, since_ms: int | None, until_ms: int | None
    ) -> list[Range]:
        """Find the ranges of the input topic that these flags and two times choose, partition by partition.

        Raises:
            SettingsError: the topic or one of the partitions is not there, or an offset has another form.
        """
        from glaim_stream.kafka import ranges_of

        return await ranges_of(
            settings,
            consumer,
            settings.input_topic,
            from_offset=parse_offsets(self.from_offset),
            until_offset=parse_offsets(self.until_offset),
            since_ms=since_ms,
            until_ms=until_ms,
            partitions=self.partition or (),
        )


def parse_offsets(given: list[str] | None) -> dict[int, int] | int | None:
    """Offsets from text in the form of OFFSETS: by partition, or one for all; None where none is given.

    Raises:
        SettingsError: the text has another form.
    """
    from glaim_stream.core.errors import SettingsError

    if not given:
        return None
    pairs = [_OFFSET.fullmatch(text) for text in given]
    if not all(pairs) or (len(pairs) > 1 and not all(pair and pair[1] for pair in pairs)):
        raise SettingsError(
            f"expected an offset of 0 or more, or PARTITION:OFFSET for each partition, found {', '.join(given)}"
        )
    offsets = {pair[1]: int(pair[2]) for pair in pairs if pair}
    return offsets[None] if None in offsets else {int(partition): offset for partition, offset in offsets.items()}
