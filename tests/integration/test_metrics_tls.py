"""A worker whose metrics a real Prometheus scrapes by mutual TLS, while the certificate is replaced."""

import json
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.errors import FetchError
from deploy.gotools import GoUnavailable
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.prometheus import LocalPrometheus
from deploy.prometheus_install import PrometheusUnavailable, find_prometheus
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from tests.certificates import MountedSecret, Pair, signed
from tests.integration.worker_process import WorkerProcess, run_command, small_settings

pytestmark = pytest.mark.slow  # quicker: tests/worker/test_pages_tls.py

CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 10, revise_after: 2, max_gap: 5, idle_timeout_s: 100000, sensors: [{id: s0}]}
groups: [{model: m, pattern: "g*"}]
"""
TIMEOUT_S = 60
NAME = "plant-worker.plant.svc"  # a name as the chart's monitors expect it, while the target is an address
AUTHORITY = signed("authority")
EXPIRES = 'glaim_certificate_expires_timestamp_seconds{use="metrics",file="certificate"}'


def files_of(pair: Pair, key: Pair | None = None) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem, "tls.key": (key or pair).key_pem(), "ca.crt": AUTHORITY.certificate_pem}


def tls_settings(kafka: str, prefix: str, directory: Path, mounted: MountedSecret) -> Settings:
    return small_settings(
        kafka, prefix, directory, CATALOGUE, metrics_port=choose_port(), metrics_host=LOOPBACK,
        metrics_tls_cert=mounted / "tls.crt", metrics_tls_key=mounted / "tls.key",
        metrics_tls_client_ca=mounted / "ca.crt",
    )  # fmt: skip


def probe(settings: Settings) -> int | None:
    """Status of the liveness page as the kubelet requests it: it shows no certificate and checks none."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(
            f"https://{LOOPBACK}:{settings.metrics_port}/health/live", timeout=10, context=context
        ) as answer:
            return int(answer.status)
    except OSError:  # the worker is starting
        return None


def wait_for(condition: Callable[[], bool], found: Callable[[], object]) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s, f"waited {TIMEOUT_S} s, found {found()}"
        time.sleep(0.2)


def test_prometheus_scrapes_by_mutual_tls_across_a_renewal(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    try:
        find_prometheus()
    except (PrometheusUnavailable, GoUnavailable, FetchError) as reason:
        pytest.skip(str(reason))
    old, new = (signed("worker", AUTHORITY, hosts=[NAME], days=days) for days in (5, 40))
    mounted = MountedSecret(tmp_path / "mounted", files_of(old))
    settings = tls_settings(kafka.bootstrap_servers, topic_prefix, tmp_path, mounted)
    certificate, key = signed("prometheus", AUTHORITY).write(tmp_path, "prometheus")
    trusted = {"ca_file": str(mounted / "ca.crt"), "server_name": NAME}
    targets = [{"targets": [f"{LOOPBACK}:{settings.metrics_port}"]}]
    jobs = {
        "admitted": trusted | {"cert_file": str(certificate), "key_file": str(key)},
        "without-certificate": trusted,
        "other-name": trusted | {"server_name": "else.plant.svc", "cert_file": str(certificate), "key_file": str(key)},
    }
    configuration = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
        "scrape_configs": [
            {"job_name": job, "scheme": "https", "tls_config": tls, "static_configs": targets}
            for job, tls in jobs.items()
        ],
    }
    ensure_topics(settings)
    log = tmp_path / "worker.log"
    with WorkerProcess(settings, log) as worker:
        wait_for(lambda: probe(settings) == 200, log.read_text)
        with LocalPrometheus(configuration) as prometheus:

            def value(query: str) -> float | None:
                address = f"{prometheus.url}/api/v1/query?" + urllib.parse.urlencode({"query": query})
                with urllib.request.urlopen(address, timeout=10) as answer:
                    result = json.load(answer)["data"]["result"]
                return float(result[0]["value"][1]) if result else None

            def shows(pair: Pair) -> bool:
                return value(EXPIRES) == pair.certificate.not_valid_after_utc.timestamp()

            wait_for(lambda: shows(old), lambda: value(EXPIRES))
            mounted.replace(files_of(new, key=old))
            time.sleep(1.0)
            assert shows(old), "the old pair serves while the new one is not whole"
            mounted.replace(files_of(new))
            wait_for(lambda: shows(new), lambda: value(EXPIRES))
            assert value('min_over_time(up{job="admitted"}[5m])') == 1, "no scrape failed"
            assert value('max_over_time(up{job="without-certificate"}[5m])') == 0
            assert value('max_over_time(up{job="other-name"}[5m])') == 0
            assert probe(settings) == 200
            assert worker.running
    lines = log.read_text()
    assert f"pages: https://{LOOPBACK}:{settings.metrics_port}/metrics" in lines
    assert lines.count("metrics: the TLS files that were read before stay in use") == 1
    assert lines.count("metrics: the TLS files changed and were read again, certificate until") == 1


@pytest.mark.parametrize(
    ("pair", "key", "message"),
    [
        (signed("a", AUTHORITY), signed("b", AUTHORITY), "expected PEM files for TLS in "),
        (signed("c", AUTHORITY, days=-1), None, "tls.crt: expected a valid certificate, found one that expired on "),
    ],
    ids=["key of another certificate", "expired"],
)
def test_a_worker_with_an_unusable_pair_ends_with_a_sentence(
    pair: Pair, key: Pair | None, message: str, tmp_path: Path
) -> None:
    mounted = MountedSecret(tmp_path / "mounted", files_of(pair, key))
    settings = tls_settings(f"{LOOPBACK}:1", "unused-", tmp_path, mounted)
    run = run_command(settings, "worker", timeout_s=60)
    assert run.returncode != 0
    assert message in run.stderr
    assert "Traceback" not in run.stderr + run.stdout
