"""A worker that cannot serve its metrics by TLS. tests/worker/test_pages_tls.py has the pages themselves."""

from pathlib import Path

import pytest

from deploy.ports import LOOPBACK, choose_port
from glaim_stream.core.settings import Settings
from tests.certificates import MountedSecret, Pair, signed
from tests.integration.worker_process import run_command, small_settings

pytestmark = pytest.mark.slow  # quicker: tests/worker/test_pages_tls.py

CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 10, revise_after: 2, max_gap: 5, idle_timeout_s: 100000, sensors: [{id: s0}]}
groups: [{model: m, pattern: "g*"}]
"""
AUTHORITY = signed("authority")


def files_of(pair: Pair, key: Pair | None = None) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem, "tls.key": (key or pair).key_pem(), "ca.crt": AUTHORITY.certificate_pem}


def tls_settings(kafka: str, prefix: str, directory: Path, mounted: MountedSecret) -> Settings:
    return small_settings(
        kafka, prefix, directory, CATALOGUE, metrics_port=choose_port(), metrics_host=LOOPBACK,
        metrics_tls_cert=mounted / "tls.crt", metrics_tls_key=mounted / "tls.key",
        metrics_tls_client_ca=mounted / "ca.crt",
    )  # fmt: skip


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
