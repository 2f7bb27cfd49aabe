"""Flags that several commands share. What is not given comes from the environment (GLAIM_*), then from the default."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ImputerName(StrEnum):
    """First rung of the ladder."""

    TRITON = "triton"
    LOCAL = "local"
    INTERPOLATION = "interpolation"
    LAST_VALUE = "last_value"
    ECHO = "echo"


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
    typer.Option(help="Topic of what cannot be used. [env: GLAIM_DEAD_LETTER_TOPIC, else the input topic with -dlq]"),
]
LateTopic = Annotated[
    str | None,
    typer.Option(help="Topic of what comes too late. [env: GLAIM_LATE_TOPIC, else the input topic with -late]"),
]
OutageTopic = Annotated[
    str | None,
    typer.Option(
        help="Topic that says which groups go dark and speak again. "
        "[env: GLAIM_OUTAGE_TOPIC, else the output topic with -outages]"
    ),
]
Catalogue = Annotated[
    Path | None, typer.Option(help="Which groups there are. [env: GLAIM_CATALOGUE, else groups.yaml]")
]
ModelRepository = Annotated[
    Path | None,
    typer.Option(help="Folder with a folder a model, each with its contract. [env: GLAIM_MODEL_REPOSITORY]"),
]
ConsumerGroup = Annotated[
    str | None, typer.Option(help="Kafka's consumer group of the workers. [env: GLAIM_CONSUMER_GROUP]")
]
Imputer = Annotated[
    ImputerName | None,
    typer.Option(
        help="Who fills first: a Triton server, TorchScript in this process, or no model. "
        "[env: GLAIM_IMPUTER, else triton]"
    ),
]
Triton = Annotated[
    str | None, typer.Option(help="host:port of Triton's gRPC. [env: GLAIM_TRITON, else localhost:8001]")
]
OFFSETS = "Offset for all partitions, or PARTITION:OFFSET, repeatable."


def offsets_of(given: list[str] | None) -> dict[int, int] | int | None:
    """What was given as OFFSETS says.

    Raises:
        SettingsError: it says nothing.
    """
    from glaim_stream.errors import SettingsError

    if not given:
        return None
    try:
        if len(given) == 1 and ":" not in given[0]:
            return int(given[0])
        pairs = [text.split(":") for text in given]
        return {int(partition): int(offset) for partition, offset in pairs}
    except ValueError as error:
        raise SettingsError(f"expected an offset, or PARTITION:OFFSET, found {given}") from error
