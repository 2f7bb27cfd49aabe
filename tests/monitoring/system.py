"""The whole system on this machine: worker, Triton, feed, Prometheus with the chart's rules, Alertmanager, webhook."""

import json
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Self

import yaml

from deploy.cache import CHECKOUT
from deploy.ports import LOOPBACK, choose_port
from deploy.prometheus import LocalAlertmanager, LocalPrometheus
from deploy.triton import LocalTriton
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from tests.constants import BREAKER_REST
from tests.integration.worker_process import WorkerProcess, environment_of, plant_settings, without_forms
from tests.rules_file import rules_file

CONFIGURATIONS = CHECKOUT / "deploy" / "prometheus"
SPEEDUP = 60  # a minute of the rules takes a second here
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


# Seconds that an expression compares with an elapsed time. A release's first hour, without objectives, stays an hour.
ELAPSED = re.compile(r"(?<=updated_timestamp_seconds > )\d+|(?<=\[1h\]\) < )\d+")


def shortened(text: str) -> str:
    """Divide a duration, or the windows and elapsed times of an expression, by `SPEEDUP`, to at least 2 s."""

    def shorter(found: re.Match[str]) -> str:
        return f"{max(2, int(found[1]) * UNIT_S[found[2]] // SPEEDUP)}s"

    if re.fullmatch(r"\d+[smhd]", text):
        return re.sub(r"(\d+)([smhd])", shorter, text)
    text = ELAPSED.sub(lambda found: str(int(found[0]) // SPEEDUP), text)
    return re.sub(r"(?<=\[)(\d+)([smhd])(?=\])", shorter, text)


def shortened_rules() -> dict[str, Any]:
    """The chart's rules with `for` and every window divided by `SPEEDUP`."""
    rules = rules_file()
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule["expr"] = shortened(rule["expr"])
        if "for" in rule:
            rule["for"] = shortened(rule["for"])
    return rules


class Webhook:
    """A receiver of Alertmanager; `notifications` has every (alertname, status) in order."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, str]] = []
        notifications = self.notifications

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                notifications.extend((alert["labels"]["alertname"], alert["status"]) for alert in body["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = HTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def names(self, status: str) -> set[str]:
        """Alerts that were notified with this status."""
        return {name for name, notified in self.notifications if notified == status}


class System:
    """The running processes, and queries of their Prometheus."""

    def __init__(
        self,
        triton: LocalTriton,
        worker: WorkerProcess,
        feed: subprocess.Popen[bytes],
        prometheus: LocalPrometheus,
        webhook: Webhook,
    ) -> None:
        self.triton, self.worker, self.feed = triton, worker, feed
        self.prometheus, self.webhook = prometheus, webhook

    def query(self, expression: str) -> list[dict[str, Any]]:
        """See query_prometheus."""
        return query_prometheus(self.prometheus, expression)

    def firing(self) -> set[str]:
        """Names of the alerts that fire now."""
        alerts = asked(self.prometheus, "alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    @contextmanager
    def expecting(self, alerts: set[str]) -> Iterator[None]:
        """Check that the block makes exactly these alerts fire; it must repair its fault, so that they resolve."""
        wait_until(lambda: self.firing() == set(), 60, "no firing alert", self.firing)
        self.webhook.notifications.clear()
        yield
        wait_until(
            lambda: self.webhook.names("resolved") >= alerts,
            90,  # an hour of the rules and half of one
            "the alerts to resolve",
            lambda: self.webhook.notifications,
        )
        assert self.webhook.names("firing") == alerts, self.webhook.names("firing")

    def wait_for(self, alerts: set[str]) -> None:
        """Wait until Alertmanager has notified these alerts, and 3 s more for any other that would fire."""
        wait_until(lambda: self.webhook.names("firing") >= alerts, 60, "the alerts", lambda: self.webhook.notifications)
        time.sleep(3)

    def recorded_for_s(self) -> float:
        """Seconds since the first scrape of the worker."""
        first = self.query("time() - min_over_time(timestamp(up{job='glaim-stream-worker'})[1h:500ms])")
        return float(first[0]["value"][1]) if first else 0.0


def asked(prometheus: LocalPrometheus, path: str, **parameters: str) -> Any:
    """The data of an answer of Prometheus."""
    data = urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(f"{prometheus.url}/api/v1/{path}?{data}", timeout=10) as answer:
        return json.load(answer)["data"]


def query_prometheus(prometheus: LocalPrometheus, expression: str) -> list[dict[str, Any]]:
    """The instant vector of an expression without NaN and infinite values."""
    answer = asked(prometheus, "query", query=expression)
    samples = answer["result"]
    if answer["resultType"] == "scalar":
        samples = [{"metric": {}, "value": samples}]
    return [sample for sample in samples if sample["value"][1] not in ("NaN", "+Inf", "-Inf")]


def wait_until(holds: Callable[[], bool], deadline_s: float, what: str, state: Callable[[], object]) -> None:
    """Wait until a condition holds; the AssertionError after `deadline_s` shows the state."""
    end_s = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end_s, f"after {deadline_s} s still waiting for {what}: {state()}"
        time.sleep(0.25)


@contextmanager
def running_system(kafka: str, prefix: str, directory: Path) -> Iterator[System]:
    """Start the system on an existing Kafka; the plant feeds it 2 steps a second, which Triton on two cores can follow.

    Its model has no closed form, which two cores could not compute beside Triton and Prometheus without falling behind.
    """
    with ExitStack() as parts:
        triton = parts.enter_context(LocalTriton(CHECKOUT / "model_repo", models=["plant-pump"]))
        settings = plant_settings(
            kafka,
            prefix,
            partitions=2,
            triton=triton.grpc_url,
            triton_deadline_s=1,
            quality_topic=prefix + "quality",
            instance_id="worker-0",  # a static member gets its partitions back at once after a restart
            metrics_port=choose_port(),
            metrics_host=LOOPBACK,
        )
        settings = settings.model_copy(update={"model_repository": without_forms(directory)})
        ensure_topics(settings)
        worker = parts.enter_context(WorkerProcess(settings, directory / "worker.log", constants={BREAKER_REST: 0.5}))
        feed = subprocess.Popen(
            [sys.executable, "-m", "glaim_stream", "produce", "--plant", "--groups", "6", "--days", "2",
             "--drop", "0.2", "--speed", "120"],
            env=environment_of(settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        parts.callback(feed.wait)
        parts.callback(feed.kill)
        webhook = parts.enter_context(Webhook())
        alertmanager = parts.enter_context(LocalAlertmanager(_alertmanager_configuration(webhook)))
        prometheus = parts.enter_context(
            LocalPrometheus(_prometheus_configuration(alertmanager, triton, settings, directory))
        )
        yield System(triton, worker, feed, prometheus, webhook)


def _alertmanager_configuration(webhook: Webhook) -> dict[str, Any]:
    """The configuration in deploy/ with short intervals and the webhook as receiver."""
    configuration: dict[str, Any] = yaml.safe_load((CONFIGURATIONS / "alertmanager.yml").read_text())
    configuration["route"] |= {"group_wait": "1s", "group_interval": "1s"}
    configuration["receivers"][0]["webhook_configs"] = [{"url": webhook.url, "send_resolved": True}]
    return configuration


def _prometheus_configuration(
    alertmanager: LocalAlertmanager, triton: LocalTriton, settings: Settings, directory: Path
) -> dict[str, Any]:
    """The configuration in deploy/ with short intervals and local addresses."""
    rules = directory / "rules.yaml"
    rules.write_text(yaml.safe_dump(shortened_rules()))
    configuration: dict[str, Any] = yaml.safe_load((CONFIGURATIONS / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "500ms"}
    configuration["rule_files"] = [str(rules), str(CONFIGURATIONS / "release.yaml")]
    configuration["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [alertmanager.address]
    addresses = {
        "glaim-stream-worker": f"{LOOPBACK}:{settings.metrics_port}",
        "glaim-stream-triton": triton.metrics_url.removeprefix("http://").removesuffix("/metrics"),
    }
    for job in configuration["scrape_configs"]:
        job.pop("dns_sd_configs", None)
        job["static_configs"] = [{"targets": [addresses[job["job_name"]]]}]
    return configuration
