"""MirrorMaker 2 of Apache Kafka: copies topics, and the offsets of consumer groups, from one Kafka to another.

    with LocalMirror(first.bootstrap_servers, second.bootstrap_servers, ["sensor-readings"], ["glaim-stream"]):
        ...

Topics keep their names, as docs/recovery.md recommends. Records keep partition, key, value, headers and time, and get
new offsets. The offsets of the groups are translated, as far as a group has no members in the second Kafka.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from deploy.cache import Report
from deploy.errors import ServerFailed
from deploy.java import find_java
from deploy.kafka import LOG4J, QUICK_START
from deploy.kafka_artifacts import kafka_jars
from deploy.process import ServerProcess
from deploy.runner import LocalServer

ARTIFACTS = Path(__file__).with_name("mirror-artifacts.txt")

# One node on this machine, and everything a second after it happened instead of a minute.
_PROPERTIES = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "emit.heartbeats.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "refresh.topics.interval.seconds": "5",
    "tasks.max": "1",
}


class LocalMirror(LocalServer):
    """MirrorMaker 2 between two Kafkas, as a process that ends with this one.

    Args:
        first: `host:port` of the Kafka that is copied.
        second: `host:port` of the Kafka that gets the copy.
        topics: Names of the topics; they must exist in the first Kafka.
        groups: Consumer groups whose offsets are translated.
        name: Tells several mirrors between the same Kafkas apart; with one name they would share their work.
        start_deadline_s: Time limit until the second Kafka has every topic.
        report: Receives the progress lines of a download.
    """

    def __init__(
        self,
        first: str,
        second: str,
        topics: Sequence[str],
        groups: Sequence[str] = (),
        *,
        name: str = "mirror",
        start_deadline_s: float = 120.0,
        report: Report = print,
    ) -> None:
        super().__init__()
        self._first = first
        self._second = second
        self._topics = list(topics)
        self._groups = list(groups)
        self._name = name
        self._start_deadline_s = start_deadline_s
        self._report = report
        self._directory: Path | None = None

    def start(self) -> Self:
        """Start the copying and wait until the second Kafka has every topic.

        Raises:
            FetchError: The jars could not be downloaded.
            JavaUnavailable: There is no Java to run it.
            ServerFailed: It ended or made no topics in time; the message ends with the tail of its log.
        """
        if self.running:
            raise ServerFailed("the mirror is already running")
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="glaim-mirror-"))
        jars = [*kafka_jars(self._report), *kafka_jars(self._report, ARTIFACTS)]
        first, second = f"{self._name}-first", f"{self._name}-second"
        lines = _PROPERTIES | {
            "clusters": f"{first},{second}",
            f"{first}.bootstrap.servers": self._first,
            f"{second}.bootstrap.servers": self._second,
            f"{first}.consumer.isolation.level": "read_committed",  # rows of open and aborted transactions are none
            f"{first}->{second}.enabled": "true",
            f"{first}->{second}.topics": ",".join(self._topics),
            f"{first}->{second}.groups": ",".join(self._groups) or "none",
            f"{second}->{first}.enabled": "false",
        }
        properties, logging = self._directory / "mirror.properties", self._directory / "log4j2.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        logging.write_text(LOG4J)
        self._process = ServerProcess(
            "MirrorMaker",
            [
                str(find_java().path), "-Xmx512m", *QUICK_START, f"-Dlog4j2.configurationFile={logging}",
                "-cp", os.pathsep.join(map(str, jars)),
                "org.apache.kafka.connect.mirror.MirrorMaker", str(properties),
            ],
            environment=os.environ,
            log=self._directory / "mirror.log",
            orphan_dirs=[self._directory],
        )  # fmt: skip
        self._process.start()
        self._process.wait_ready(self._missing, self._start_deadline_s)
        return self

    def stop(self) -> None:
        """End the copying, with SIGKILL after 20 s, and delete the temporary files. Idempotent."""
        if self._process is not None:
            self._process.stop()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _missing(self) -> str | None:
        """None once the second Kafka has every topic."""
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self._second)
        try:
            missing = set(self._topics) - set(admin.list_topics())
        finally:
            admin.close()
        return f"{self._second} has no topic {', '.join(sorted(missing))}" if missing else None
