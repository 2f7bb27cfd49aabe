"""The demo as a user runs it: its numbers are consistent, and no process outlives it, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deploy.cache import CHECKOUT
from deploy.triton_install import unsupported_reason
from glaim_stream.core.contract import CONTRACT_FILE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc"),
    pytest.mark.skipif(
        not (CHECKOUT / "model_repo" / "plant-pump" / CONTRACT_FILE).exists(),
        reason="model_repo has no plant-pump: run the training commands of the README first",
    ),
]

Process = tuple[int, str]  # id and start time, because ids are reused


def start_demo(tmp_path: Path, *flags: str) -> subprocess.Popen[str]:
    """Start the demo with separate servers and topics, and a separate folder for temporary files."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GLAIM_")}
    environment |= {name: os.environ[name] for name in ("GLAIM_CACHE",) if name in os.environ}
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "deploy.demo", "--scenario", "plant", "--out", str(tmp_path / "out"), *flags],
        cwd=CHECKOUT,
        env=environment | {"TMPDIR": str(scratch), "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def descendants(pid: int) -> set[Process]:
    """All descendants of a process."""
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just exited
        children.setdefault(int(fields[1]), []).append((int(entry.parent.name), fields[19]))
    found: set[Process] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child[0])
    return found


def alive(process: Process) -> bool:
    try:
        fields = Path(f"/proc/{process[0]}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[19] == process[1] and fields[0] != "Z"


def wait_until(condition: Callable[[], bool], deadline_s: float) -> bool:
    end_s = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.1)
    return True


def test_a_small_demo_reports_consistent_numbers_and_leaves_no_process(tmp_path: Path) -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    demo = start_demo(tmp_path, "--hours", "3", "--groups", "4", "--hide", "0.1")
    started: set[Process] = set()
    while demo.poll() is None:
        started |= descendants(demo.pid)
        time.sleep(0.2)
    shown = demo.stdout.read() if demo.stdout else ""
    assert demo.returncode == 0, shown
    assert len(started) >= 6, "Kafka, Triton and the worker have a guard and a server each"
    assert not [process for process in started if alive(process)]
    assert list((tmp_path / "scratch").iterdir()) == []

    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    readings = 3 * 60 * 4 * 8
    assert summary["hidden"] == round(0.1 * readings)
    assert summary["readings_in"] == summary["readings_out"] == readings - summary["hidden"]
    assert (summary["lost"], summary["dead_letters"], summary["problems"]) == (0, 0, [])
    assert summary["audit"]["clean"]
    assert summary["holes"] == sum(summary["filled"].values()) == summary["hidden"]
    filled = summary["filled"]
    # Where a baseline had smaller recent errors, the blend is that baseline alone.
    assert sum(filled.get(name, 0) for name in ("model", "blend", "gaussian")) >= 0.8 * summary["holes"]
    for word in ("final", "provisional"):
        scored = summary["scores"][word]
        assert scored["cells"] > 0.85 * summary["hidden"]
        assert set(scored["mae"]) == {"model", "gaussian", "interpolation", "last_value"}
        assert sum(each["cells"] for each in scored["by_sensor"].values()) == scored["cells"]
    assert summary["mae"] == summary["scores"]["final"]["mae"]
    assert summary["mae"]["model"] < min(summary["mae"]["interpolation"], summary["mae"]["last_value"])
    assert 0 < summary["latency_ms"]["p50"] <= summary["latency_ms"]["p99"]
    assert summary["readings_per_second"] > 0
    assert summary["imputer"].startswith("Triton")
    assert "streaming" in summary["seconds"]
    with pa.memory_map(summary["arrow_file"]) as source:
        table = pa.ipc.open_file(source).read_all()
    assert table.num_rows == summary["arrow_rows"] == readings
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()
    assert "readings in" in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_a_demo_that_is_stopped_or_killed(tmp_path: Path, number: signal.Signals) -> None:
    # Slow enough to be stopped while it streams; the local model starts sooner than a Triton.
    demo = start_demo(tmp_path, "--hours", "6", "--speed", "60", "--imputer", "local")
    try:
        assert demo.stdout is not None
        lines = iter(demo.stdout.readline, "")
        assert any("readings in" in line for line in lines), "the demo did not start streaming"
        started = descendants(demo.pid)
        assert len(started) >= 4
        demo.send_signal(number)
        rest = demo.stdout.read()
        assert demo.wait(40) == (130 if number == signal.SIGINT else -signal.SIGKILL), rest
        assert wait_until(lambda: not any(alive(process) for process in started), 20), "processes were left behind"
        if number == signal.SIGINT:
            assert "nothing is left running" in rest
            assert list((tmp_path / "scratch").iterdir()) == []
    finally:
        demo.kill()
        demo.wait()
