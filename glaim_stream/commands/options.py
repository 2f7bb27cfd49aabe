"""Flags that several commands share. What is not given comes from the environment (GLAIM_*), then from the default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
