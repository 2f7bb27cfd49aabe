"""Rules for CronJobs: a valid schedule, an existing time zone, no overlapping jobs, and limits for failures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import available_timezones

from cronsim import CronSim, CronSimError

from tests.helm.chart_checks.system import Object, System, inside, name_of

MACROS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
WEEKDAYS = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}


def cron_problem(line: str) -> str | None:
    """The reason why Kubernetes would reject this schedule, or None if it is valid."""
    if line in MACROS:
        return None
    fields = line.split()
    if len(fields) != 5:
        return f"expected five fields, found {len(fields)}"
    for field in fields:
        if not re.fullmatch(r"[0-9A-Za-z*?,/-]+", field):
            return f"{field!r} contains characters other than digits, letters, * ? , / and -"
    if re.search("[A-Za-z]", fields[2]):
        return f"expected a number for the day of the month, found {fields[2]!r}"
    if re.search(r"(?<!/)\b7\b", fields[4]) or set(re.findall("[A-Z]+", fields[4].upper())) - WEEKDAYS:
        return f"expected days of the week 0 to 6 or SUN to SAT, found {fields[4]!r}"
    try:
        next(CronSim(line.replace("?", "*"), datetime(2026, 1, 1)))
    except (CronSimError, StopIteration) as error:
        return str(error) or "no date matches"
    return None


def check(system: System) -> Iterator[str]:
    for job in system.of_kind("CronJob"):
        yield from _schedule(job)
    for pod in system.pods:
        if pod.owner["kind"] in ("CronJob", "Job") and pod.spec.get("restartPolicy") not in ("Never", "OnFailure"):
            yield f"{pod.where}: restartPolicy must be Never or OnFailure"
    for job in system.of_kind("CronJob", "Job"):
        yield from _failures(job, job["spec"] if job["kind"] == "Job" else inside(job, "spec", "jobTemplate", "spec"))


def _schedule(job: Object) -> Iterator[str]:
    problem = cron_problem(job["spec"]["schedule"])
    if problem:
        yield f"{name_of(job)}: schedule {job['spec']['schedule']!r}: {problem}"
    zone = job["spec"].get("timeZone")
    if zone is None or zone not in available_timezones():
        yield f"{name_of(job)}: timeZone must be an IANA time zone, found {zone}"
    if job["spec"].get("concurrencyPolicy") != "Forbid":
        yield f"{name_of(job)}: two of its jobs may run at once: concurrencyPolicy must be Forbid"
    if job["spec"].get("startingDeadlineSeconds") is None:
        yield f"{name_of(job)}: has no startingDeadlineSeconds: after 100 missed starts it would not start again"


def _failures(job: Object, spec: Object) -> Iterator[str]:
    if spec.get("activeDeadlineSeconds") is None:
        yield f"{name_of(job)}: has no time limit: activeDeadlineSeconds is not set"
    if spec.get("backoffLimit") is None:
        yield f"{name_of(job)}: backoffLimit is not set"
    rules = inside(spec, "podFailurePolicy").get("rules") or []
    pod = inside(spec, "template", "spec")
    if rules and pod.get("restartPolicy") != "Never":
        yield f"{name_of(job)}: podFailurePolicy needs restartPolicy Never"
    names = {item["name"] for kind in ("containers", "initContainers") for item in pod.get(kind) or []}
    for rule in rules:
        named = inside(rule, "onExitCodes").get("containerName")
        if named and named not in names:
            yield f"{name_of(job)}: podFailurePolicy names the container {named}, which does not exist"
