"""The worker's image, built by a real engine, and its own command beside a real Kafka and Triton.

The base image is a stand-in (deploy/images/without_registry.sh). As in a release, all files have the same time.
"""

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.triton import ExternalTriton, LocalTriton
from tests.deploy.containers import BuiltImage, built_without_registry, missing

# Quicker: test_compose_runs.py runs the steps of the same file in a folder, test_images.py reads it.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),  # four minutes on two busy cores, three of them for the build
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
SERVICES = yaml.safe_load((CHECKOUT / "deploy" / "compose.yaml").read_text())["services"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltImage]:
    with built_without_registry("worker", tmp_path_factory.mktemp("images")) as image:
        for path in [image.root / "opt", image.root / "usr" / "local"]:
            for each in path.rglob("*"):
                os.utime(each, (1_700_000_000, 1_700_000_000), follow_symlinks=False)
        yield image


def files(image: BuiltImage) -> Iterator[Path]:
    for folder, _, names in os.walk(image.root):
        yield from (Path(folder, name) for name in names)


def test_image_has_what_it_needs_and_nothing_else(built: BuiltImage) -> None:
    assert (built.config["User"], built.config["Entrypoint"], built.config["Cmd"]) == (
        "10001:10001", ["glaim-stream"], ["worker"],
    )  # fmt: skip
    found = [path.relative_to(built.root) for path in files(built)]
    assert not {"gcc", "cc", "make", "ld", "uv", "git", "curl", "hatchling"} & {path.name for path in found}
    assert not [path for path in found if path.parts[0] in ("src", "root", "tmp") and path.name[0] != "."]
    assert not [path for path in found if {"pip", "uv"} & set(path.parts) and ".cache" in path.parts]
    ours = [built.root / path for path in found if path.parts[0] == "opt"]
    assert not [path for path in ours if not path.is_symlink() and path.stat().st_mode & stat.S_IWOTH]
    # Licences: ours, those of the packages, and of the data in the models.
    assert (built.root / "opt/glaim/model_repo/NOTICE").read_text().strip()
    assert {path.name for path in (built.root / "opt/licenses").iterdir()} == {"LICENSE", "NOTICE", "THIRD_PARTY.txt"}
    packages = built.root / "opt/venv/lib/python3.11/site-packages"
    assert list(packages.glob("glaim_stream-*.dist-info/licenses/LICENSE"))
    assert len(list(packages.glob("*.dist-info/**/LICEN[CS]E*"))) > 50


def test_nothing_is_compiled_at_the_start(built: BuiltImage) -> None:
    run = built.run(["python", "-v", "-c", "import glaim_stream.worker.app, tritonclient.grpc.aio"])
    assert run.returncode == 0, run.stderr[-2000:]
    loaded = [line for line in run.stderr.splitlines() if line.startswith("# code object from ")]
    assert len(loaded) > 800
    assert not [line for line in loaded if "'" not in line]  # without quotes: the source has been compiled


def test_the_root_is_read_only_and_tmp_runs_nothing(built: BuiltImage) -> None:
    script = "import os; print(os.getuid(), os.getpid()); open('/opt/glaim/written', 'w')"
    run = built.run(["python", "-c", script])
    assert run.stdout == "10001 1\n"
    assert "Read-only file system" in run.stderr
    run = built.run(["sh", "-c", "cp /bin/true /tmp/true && /tmp/true"])
    assert "Permission denied" in run.stderr


def test_worker_fills_readings_and_stops(built: BuiltImage, triton: LocalTriton | ExternalTriton) -> None:
    settings = {name: str(value) for name, value in SERVICES["producer"]["environment"].items()}
    port = choose_port()
    with LocalKafka(jvm_options=QUICK_START) as kafka:
        settings |= {"GLAIM_KAFKA": kafka.bootstrap_servers}
        made = built.run(SERVICES["topics"]["entrypoint"], settings)
        assert made.returncode == 0, made.stderr
        given = settings | {
            "GLAIM_TRITON": triton.grpc_url, "GLAIM_METRICS_PORT": str(port), "GLAIM_METRICS_HOST": LOOPBACK,
        }  # fmt: skip
        own = [*built.config["Entrypoint"], *built.config["Cmd"]]
        produce = [*built.config["Entrypoint"], *SERVICES["producer"]["command"]]
        with built.running(own, given) as worker, built.running(produce, settings) as producer:
            tail = ["tail", "--from-beginning", "--only-imputed", "--limit", "500", "--timeout", "60"]
            shown = built.run([*built.config["Entrypoint"], *tail, "--format", "jsonl"], settings)
            assert shown.returncode == 0, shown.stderr + worker.tail() + producer.tail()
            rows = [json.loads(line) for line in shown.stdout.splitlines()]
            assert len(rows) == 500
            assert {row["method"] for row in rows} & {"model", "blend"}
            worker.signal("TERM")
            deadline = time.monotonic() + int(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))
            while worker.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.2)
            assert worker.process.poll() == 0, worker.tail()
