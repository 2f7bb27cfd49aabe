"""`glaim-stream worker`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from glaim_stream.commands.options import (
    Catalogue,
    ConsumerGroup,
    DeadLetterTopic,
    Imputer,
    InputTopic,
    Kafka,
    LateTopic,
    ModelRepository,
    OutageTopic,
    OutputTopic,
    Triton,
)


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def worker(
    kafka: Kafka = None,
    catalogue: Catalogue = None,
    model_repository: ModelRepository = None,
    imputer: Imputer = None,
    triton: Triton = None,
    input_topic: InputTopic = None,
    output_topic: OutputTopic = None,
    dead_letter_topic: DeadLetterTopic = None,
    late_topic: LateTopic = None,
    outage_topic: OutageTopic = None,
    consumer_group: ConsumerGroup = None,
    instance_id: Annotated[
        str | None,
        typer.Option(help="Name that this worker keeps over restarts, one a worker. [env: GLAIM_INSTANCE_ID]"),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="HTTP port of /metrics, 0 picks a free one. [env: GLAIM_METRICS_PORT, else 9464]")
    ] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help="[env: GLAIM_LOG_LEVEL, else info]")] = None,
) -> None:
    """Fill the holes of the input topic, live, until SIGTERM or Ctrl-C.

    Every other setting is an environment variable; glaim_stream/settings.py lists them with their units.
    """
    from glaim_stream.settings import read_settings
    from glaim_stream.worker.run import run

    run(
        read_settings(
            kafka=kafka,
            catalogue=catalogue,
            model_repository=model_repository,
            imputer=None if imputer is None else imputer.value,
            triton=triton,
            input_topic=input_topic,
            output_topic=output_topic,
            dead_letter_topic=dead_letter_topic,
            late_topic=late_topic,
            outage_topic=outage_topic,
            consumer_group=consumer_group,
            instance_id=instance_id,
            metrics_port=metrics_port,
            log_level=None if log_level is None else log_level.value,
        )
    )
