"""Our worker with the echo imputer: decoding, windows, Arrow and commits as always, no model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.engines import Job


class Glaim:
    """`glaim-stream worker`."""

    name = "single"

    def __init__(self, poll_records: int) -> None:
        self.poll_records = poll_records

    def command(self, job: Job) -> list[str]:
        """See Engine."""
        return [sys.executable, "-m", "glaim_stream", "worker"]

    def environment(self, job: Job) -> Mapping[str, str]:
        """See Engine."""
        catalogue = job.directory / "groups.yaml"
        catalogue.write_text(job.load.catalogue)
        return {
            "GLAIM_KAFKA": job.servers,
            "GLAIM_INPUT_TOPIC": job.input_topic,
            "GLAIM_OUTPUT_TOPIC": job.output_topic,
            "GLAIM_CONSUMER_GROUP": job.consumer_group,
            "GLAIM_CATALOGUE": str(catalogue),
            "GLAIM_MODEL_REPOSITORY": str(job.directory),
            "GLAIM_IMPUTER": "echo",
            "GLAIM_POLL_RECORDS": str(self.poll_records),
            "GLAIM_METRICS_PORT": "0",
            "GLAIM_LOG_LEVEL": "warning",
        }

    def readings_after(self, outputs: Sequence[Any]) -> list[int]:
        """Each message names its input partition and the last offset that it includes."""
        through: dict[bytes, int] = {}
        counts = []
        for output in outputs:
            headers = dict(output.headers)
            partition, offset = headers["glaim-input-partition"], int(headers["glaim-input-offset"])
            through[partition] = max(through.get(partition, 0), offset + 1)
            counts.append(sum(through.values()))
        return counts
