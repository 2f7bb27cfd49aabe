"""The glaim-stream worker as shipped, with the last value or with a model behind Triton."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from benchmarks.engines import EngineOutput, Job
from glaim_stream.output import read_rows

EXACTLY_ONCE = {"GLAIM_DELIVERY": "exactly_once"}


class Glaim:
    """The command `glaim-stream worker`."""

    missing = None

    def __init__(self, name: str, poll_records: int = 20_000, settings: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._settings = {
            "GLAIM_KAFKA_EXTRA": json.dumps({"max_poll_records": poll_records}),
            "GLAIM_IMPUTER": "last_value",
            "GLAIM_DELIVERY": "at_least_once",  # as the engines beside it deliver
        } | dict(settings or {})

    def command(self, job: Job) -> list[str]:
        """See Engine."""
        return [sys.executable, "-m", "glaim_stream", "worker"]

    def environment(self, job: Job) -> Mapping[str, str]:
        """See Engine."""
        catalogue = job.directory / f"{self.name}.yaml"
        catalogue.write_text(job.load.catalogue)
        return {
            "GLAIM_KAFKA": job.servers,
            "GLAIM_INPUT_TOPIC": job.input_topic,
            "GLAIM_OUTPUT_TOPIC": job.output_topic,
            "GLAIM_CONSUMER_GROUP": job.consumer_group,
            "GLAIM_CATALOGUE": str(catalogue),
            "GLAIM_MODEL_REPOSITORY": str(job.directory),
            "GLAIM_METRICS_PORT": "0",
            "GLAIM_LOG_LEVEL": "warning",
        } | self._settings

    def readings_after(self, job: Job, outputs: Sequence[EngineOutput]) -> list[int]:
        """See Engine; the headers of each message contain its input partition and the last offset it covers."""
        through = [0] * job.load.partitions
        counts = []
        for output in outputs:
            headers = dict(output.headers)
            partition, offset = int(headers["glaim-input-partition"]), int(headers["glaim-input-offset"])
            if offset >= 0:  # -1 as long as no record is applied completely
                through[partition] = max(through[partition], job.through[partition][offset])
            counts.append(sum(through))
        return counts

    def closed_in(self, job: Job, output: EngineOutput) -> Iterable[tuple[int, int]]:
        """See Engine; a later revision shows a step again."""
        rows = read_rows(output.value)
        first = rows.filter(np.asarray(rows["revision"]) == 0)["ts"].cast("int64").unique().to_pylist()
        return [(output.partition, time_ms) for time_ms in first]
