"""One run: the stream of a seed, its faults beside it, and the audit of what a reader finds in the end."""

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from tests.chaos.randomised import feed, schedule, topics
from tests.chaos.randomised.audit import Problems, audit, number_of
from tests.chaos.randomised.faults import Chaos, Done
from tests.chaos.randomised.parts import Parts, started, wait_until

SECONDS = 45.0  # of faults
RECOVERY_S = 14  # of undisturbed stream after them
DRAINED_S = 120.0  # within which all input must be answered after that
STOPPED_S = 70.0


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found; `problems` is empty when all is well."""

    seed: int
    problems: Problems
    counts: dict[str, Any]
    faults: list[Done]
    directory: Path

    def line(self) -> dict[str, Any]:
        """The counts as one line of a results file."""
        return {
            "seed": self.seed,
            "problems": {rule: len(found) for rule, found in self.problems.items()},
        } | self.counts

    def text(self) -> str:
        """The result for a terminal, with the first offences of each rule and the faults as they happened."""
        lines = [json.dumps(self.line())]
        if self.problems:
            for rule, offences in self.problems.items():
                lines += [f"  {rule}: {len(offences)}", *(f"    {offence}" for offence in offences[:5])]
            lines += [
                f"  {each.began_s:6.1f} to {each.ended_s:5.1f} s: {each.fault.lane}, {each.fault.kind}"
                for each in self.faults
            ]
            lines.append(f"  logs: {self.directory}")
        return "\n".join(lines)


class Stream:
    """Sends the messages of a feed when they are due, in a thread."""

    def __init__(self, kafka: str, topic: str, messages: Sequence[feed.Message]) -> None:
        self.messages = messages
        self.sent = 0
        self.ended_s = 0.0
        self._topic = topic
        # The long delivery timeout survives outages of the broker; idempotence keeps order and sends nothing twice.
        self._producer = KafkaProducer(
            bootstrap_servers=kafka, linger_ms=10, enable_idempotence=True, delivery_timeout_ms=600_000
        )

    def run(self) -> None:
        """Send all of them."""
        for number, message in enumerate(self.messages):
            time.sleep(max(0.0, message.due_ms / 1000 - time.time()))
            headers = [*message.headers, (topics.NUMBER_HEADER, str(number).encode())]
            self._producer.send(self._topic, message.value, message.key, headers=headers, partition=message.partition)
            self.sent += 1
        self.ended_s = time.monotonic()
        self._producer.flush()
        self._producer.close()


def run(seed: int, directory: Path, *, seconds: float = SECONDS, without: str | None = None) -> Result:
    """Run a seed.

    Args:
        seed: draws input, faults, and whether the workers have names.
        directory: an empty one, for logs.
        seconds: of faults.
        without: a name of worker.REMOVALS.
    """
    begun_s = time.monotonic()
    prefix = f"random-{seed}-"
    named = Random(f"{seed} named").random() < 0.5
    with started(directory, prefix, named=named, without=without) as parts:
        workers = parts.members[: schedule.WORKERS]
        for member in workers:
            member.start()
        wait_until(lambda: all(member.up for member in workers), 60)
        steps = round(seconds) + RECOVERY_S
        start_ms = (time.time_ns() // 10**9 + 1) * 1000
        messages = feed.draw(seed, start_ms, steps)
        stream = Stream(parts.settings.kafka, parts.settings.input_topic, messages)
        chaos = Chaos(parts, schedule.draw(seed, seconds), lambda: stream.sent)
        thread = Thread(target=stream.run)
        start_s = time.monotonic() + start_ms / 1000 - time.time()
        thread.start()
        chaos.run(start_s)
        thread.join()
        problems = _settled(parts, chaos.errors)
        problems |= _beside_the_stream(chaos.done, stream.ended_s - start_s)
        found, counts = _judged(parts, messages, start_ms, steps, round(seconds))
    causes = Counter(f"{each.fault.lane.rstrip(' 012')}: {each.fault.kind}" for each in chaos.done)
    logs = [member.process.log for member in parts.members]
    counts |= _of_the_logs([log.read_text() for log in logs if log.exists()])
    counts |= {
        "faults": len(chaos.done),
        "overlaps": schedule.overlaps([each.fault for each in chaos.done]),
        "exits": sum(member.restarts for member in parts.members),
        "starts": sum(member.process.starts for member in parts.members),
        "seconds": round(time.monotonic() - begun_s, 1),
        "kinds": dict(sorted(causes.items())),
    }
    return Result(seed, problems | found, counts, sorted(chaos.done, key=lambda each: each.began_s), directory)


def _settled(parts: Parts, errors: list[str]) -> Problems:
    """Wait until all input is answered, and stop the workers."""
    settings, workers = parts.settings, parts.members[: schedule.WORKERS]
    problems: Problems = {"faults that could not be caused": errors} if errors else {}

    def drained() -> bool:
        try:
            commits = topics.commits_of(settings.kafka, settings.consumer_group, settings.input_topic)
            return commits == topics.ends_of(settings.kafka, settings.input_topic)
        except KafkaError:  # the broker was restarted, and its coordinator is not there yet
            return False

    if not wait_until(drained, DRAINED_S):
        commits = topics.commits_of(settings.kafka, settings.consumer_group, settings.input_topic)
        ends = topics.ends_of(settings.kafka, settings.input_topic)
        problems["not answered"] = [f"after {DRAINED_S:.0f} s committed {commits}, written {ends}"]
    wait_until(lambda: all(member.up for member in workers), DRAINED_S)
    statuses = [member.stop(STOPPED_S) for member in workers]
    if statuses != [0] * schedule.WORKERS:
        problems["not stopped"] = [f"exit status of the workers: {statuses}"]
    return problems


def _beside_the_stream(done: Sequence[Done], ended_s: float) -> Problems:
    late = [
        str(each)
        for each in done
        if each.began_s > ended_s or (each.fault.seconds >= 1 and each.sent_after == each.sent_before)
    ]
    return {"faults beside the stream": late} if late else {}


def _judged(
    parts: Parts, messages: Sequence[feed.Message], start_ms: int, steps: int, seconds: int
) -> tuple[Problems, dict[str, Any]]:
    settings = parts.settings
    kafka = settings.kafka
    inputs = topics.records_of(kafka, settings.input_topic)
    written = {(record.partition, record.offset): messages[number_of(record.headers)] for record in inputs}
    rows = topics.rows_in(topics.records_of(kafka, settings.output_topic))
    letters = topics.letters_in(topics.records_of(kafka, settings.dlq_topic))
    late = topics.letters_in(topics.records_of(kafka, settings.late_topic))
    events = [json.loads(record.value) for record in topics.records_of(kafka, settings.outage_topic)]
    lost = [event for event in events if event["kind"] == "lost"]
    step = start_ms // feed.STEP_MS
    problems = audit(written, rows, letters + late, lost, first_step=step, steps=steps)
    if len(written) != len(messages):
        problems["input"] = [f"{len(messages)} messages were sent, the topic has {len(written)}"]
    held_back = sum(topics.held_back(kafka, topic) for topic in settings.topics[1:])
    if held_back:
        problems["open transactions"] = [f"hold back {held_back} records"]
    transactions = topics.transactions(kafka, settings.consumer_group, until_ms=start_ms + seconds * 1000)
    aborted = topics.rows_in(topics.records_of(kafka, settings.output_topic, isolation="read_uncommitted"))
    return problems, {
        "messages": len(messages),
        "readings": sum(len(message.readings) for message in messages),
        "rows": len(rows),
        "guesses": sum(not row.observed for row in rows),
        "corrections": sum(row.revision > 2 for row in rows),
        "letters": len(letters),
        "late": len(late),
        "lost": len(lost),
        "causes": dict(sorted(Counter(letter.headers["glaim-cause"].decode() for letter in letters).items())),
        **{outcome: transactions[outcome] for outcome in ("committed", "committed_by_then", "aborted", "owners")},
        "rows_aborted": len(aborted) - len(rows),
    }


def _of_the_logs(logs: Sequence[str]) -> dict[str, int]:
    return {
        "fenced": sum(len(re.findall("everything in flight is dropped: .* was fenced", log)) for log in logs),
        "not_owner": sum(len(re.findall("everything in flight is dropped: .* not assigned", log)) for log in logs),
        "rebuilds": sum(log.count("windows rebuilt") for log in logs),
    }
