"""SIGTERM ends commands that write files, as when a container stops, and no partial file is left."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT

CATALOGUE = str(CHECKOUT / "deploy" / "catalogues" / "plant.yaml")


def started(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "glaim_stream", *words]
    return subprocess.Popen(command, env=os.environ | {"GLAIM_CATALOGUE": CATALOGUE, "GLAIM_IMPUTER": "interpolation"})


def test_sigterm_ends_a_dump_that_waits_for_a_broker(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker = f"127.0.0.1:{silent.getsockname()[1]}"
        with started("dump", "--out", str(tmp_path / "readings.parquet"), "--kafka", broker) as process:
            connection, _ = silent.accept()  # the dump waits for a broker that never responds
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 128 + signal.SIGTERM
            connection.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(60)
def test_sigterm_ends_a_replay(tmp_path: Path) -> None:
    rows, rejects = tmp_path / "rows.csv", tmp_path / "rejects.jsonl"
    with started("replay", "--plant", "--days", "9", "--out", str(rows), "--rejects", str(rejects)) as process:
        while not list(tmp_path.iterdir()):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    left = list(tmp_path.iterdir())  # nothing, or finished parts from which a later run goes on
    assert [each.name for each in left] in ([], ["rows.csv.parts"])
    assert all(list(each.glob("done-*.json")) for each in left)
