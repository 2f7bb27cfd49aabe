"""`glaim-stream check`."""

from __future__ import annotations

import asyncio
import json as json_format
from typing import Annotated

import typer

from glaim_stream.check.findings import Outcome, Subject
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


def check(
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
    only: Annotated[list[Subject] | None, typer.Option(help="Check only this; repeatable.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document in place of lines.")] = False,
) -> None:
    """Look at all that a worker with these settings would need, and change nothing.

    Catalogue and contracts, Kafka with its topics and this user's rights, and a real inference of every model. A line
    a check: ok, warning (it runs, and something is not as one thinks) or failed. Exit code 1 when something failed.
    """
    from glaim_stream.check.run import check as run
    from glaim_stream.settings import read_settings

    settings = read_settings(
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
    )
    findings = asyncio.run(run(settings, only or []))
    good = all(finding.outcome is not Outcome.FAILED for finding in findings)
    if json:
        print(json_format.dumps({"good": good, "checks": [finding.as_json() for finding in findings]}, indent=2))
    else:
        for finding in findings:
            print(f"{finding.outcome:<8} {finding}")
    if not good:
        raise typer.Exit(1)
