"""SIGTERM ends a dump, as when a container stops, and no partial file is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from deploy.cache import CHECKOUT


def test_sigterm_ends_a_dump_that_waits_for_a_broker(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = [sys.executable, "-m", "glaim_stream", "dump", "--out", str(tmp_path / "readings.parquet")]
        command += ["--kafka", f"127.0.0.1:{silent.getsockname()[1]}"]
        catalogue = str(CHECKOUT / "deploy" / "catalogues" / "plant.yaml")
        with subprocess.Popen(command, env=os.environ | {"GLAIM_CATALOGUE": catalogue}) as process:
            connection, _ = silent.accept()  # the dump waits for a broker that never responds
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 128 + signal.SIGTERM
            connection.close()
    assert list(tmp_path.iterdir()) == []
