"""Flags that several commands share. A flag that is not given comes from the environment (GLAIM_*), or its default."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glaim_stream.commands.flags import SettingsFlags

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer

    from glaim_stream.core.settings import Settings
    from glaim_stream.kafka import Range


class ImputerName(StrEnum):
    """The imputer that is tried first."""

    TRITON = "triton"
    LOCAL = "local"
    GAUSSIAN = "gaussian"
    INTERPOLATION = "interpolation"
    LAST_VALUE = "last_value"


Kafka = Annotated[
    str | None,
    typer.Option(help="Bootstrap servers, host:port, comma separated. [env: GLAIM_KAFKA, else localhost:9092]"),
]
InputTopic = Annotated[
    str | None, typer.Option(help="Topic of the readings. [env: GLAIM_INPUT_TOPIC, else sensor-readings]")
]
OutputTopic = Annotated[
    str | None, typer.Option(help="Topic of the filled records. [env: GLAIM_OUTPUT_TOPIC, else imputed-readings]")
]
DeadLetterTopic = Annotated[
    str | None,
    typer.Option(
        help="Topic of the records that cannot be used. [env: GLAIM_DEAD_LETTER_TOPIC, else the input topic with -dlq]"
    ),
]
LateTopic = Annotated[
    str | None,
    typer.Option(
        help="Topic of the readings that come too late. [env: GLAIM_LATE_TOPIC, else the input topic with -late]"
    ),
]
OutageTopic = Annotated[
    str | None,
    typer.Option(
        help="Topic of the events of groups that go dark and speak again. "
        "[env: GLAIM_OUTAGE_TOPIC, else the output topic with -outages]"
    ),
]
QualityTopic = Annotated[
    str | None,
    typer.Option(
        help="Compacted topic of the live accuracy of each group, such as imputation-quality. "
        "[env: GLAIM_QUALITY_TOPIC, else none is published]"
    ),
]
HealthTopic = Annotated[
    str | None,
    typer.Option(
        help="Topic of sensors that begin or cease to be faulty, such as sensor-health. "
        "[env: GLAIM_HEALTH_TOPIC, else their health is not judged]"
    ),
]
Catalogue = Annotated[
    Path | None, typer.Option(help="The models and their groups. [env: GLAIM_CATALOGUE, else groups.yaml]")
]
ModelRepository = Annotated[
    Path | None,
    typer.Option(help="Folder with one folder per model, each with its contract. [env: GLAIM_MODEL_REPOSITORY]"),
]
ConsumerGroup = Annotated[str | None, typer.Option(help="Consumer group of the workers. [env: GLAIM_CONSUMER_GROUP]")]
Imputer = Annotated[
    ImputerName | None,
    typer.Option(
        help="The first imputer: a Triton server, TorchScript in this process, or one without a model. "
        "[env: GLAIM_IMPUTER, else triton]"
    ),
]
Triton = Annotated[
    str | None, typer.Option(help="host:port of Triton's gRPC. [env: GLAIM_TRITON, else localhost:8001]")
]
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

    kafka: Kafka = None
    catalogue: Catalogue = None
    model_repository: ModelRepository = None
    imputer: Imputer = None
    triton: Triton = None
    input_topic: InputTopic = None
    output_topic: OutputTopic = None
    dead_letter_topic: DeadLetterTopic = None
    late_topic: LateTopic = None
    outage_topic: OutageTopic = None
    quality_topic: QualityTopic = None
    health_topic: HealthTopic = None
    consumer_group: ConsumerGroup = None


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
