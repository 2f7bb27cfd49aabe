"""Rules for CronJobs: a valid schedule, an existing time zone, no overlapping jobs, and limits for failures."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import available_timezones

from cronsim import CronSim, CronSimError

from tests.helm.chart_checks.system import Object, System, inside, name_of


def check(system: System) -> Iterator[str]:
    for job in system.of_kind("CronJob"):
        yield from _schedule(job)
    for pod in system.pods:
        if pod.owner["kind"] in ("CronJob", "Job") and pod.spec.get("restartPolicy") not in ("Never", "OnFailure"):
            yield f"{pod.where}: restartPolicy must be Never or OnFailure"
    for job in system.of_kind("CronJob", "Job"):
        yield from _failures(job, job["spec"] if job["kind"] == "Job" else inside(job, "spec", "jobTemplate", "spec"))


def _schedule(job: Object) -> Iterator[str]:
    try:
        CronSim(job["spec"]["schedule"], datetime(2026, 1, 1))
    except CronSimError as error:
        yield f"{name_of(job)}: schedule {job['spec']['schedule']!r}: {error}"
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
