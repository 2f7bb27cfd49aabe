"""`make prove-gpu` fails without a GPU, and with one it is green only if every command was."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from deploy import prove_gpu
from deploy.cache import CHECKOUT
from deploy.prove_gpu import Claim, claims, gpus, main, prove


def on_path(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(bool(gpus()), reason="this machine has a GPU: run make prove-gpu")
def test_without_a_gpu_everything_is_listed_and_nothing_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    told = capsys.readouterr()
    assert told.err.startswith("no GPU: expected `nvidia-smi -L` to list one")
    assert told.out.count(": not proved\n  $ ") == len(claims())
    assert "proved (" not in told.out


def test_a_driver_without_a_gpu_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path(tmp_path / "bin", "nvidia-smi", "echo No devices found; exit 6", monkeypatch)
    assert gpus() == []


@pytest.mark.parametrize(("last", "code"), [("true", 0), ("echo no device >&2; exit 4", 1)])
def test_with_a_gpu_every_command_runs_and_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], last: str, code: int
) -> None:
    on_path(tmp_path / "bin", "nvidia-smi", "echo 'GPU 0: NVIDIA (UUID: 1)'", monkeypatch)
    monkeypatch.setattr(prove_gpu, "claims", lambda: [Claim("first", last), Claim("second", "seq 9; python -V")])
    monkeypatch.setattr(prove_gpu, "LOG", tmp_path / "log")
    assert main([]) == code
    page = capsys.readouterr().out
    assert page.startswith("GPU 0: NVIDIA")
    assert ("first: proved" in page) is (code == 0)
    assert ("first: FAILED, exit code 4" in page) is (code == 1)
    assert re.search(r"second: proved \(\d+ s\)\n  \$ seq 9; python -V\n  8\n  9\n  Python 3", page)
    assert "1\n2\n3\n" in (tmp_path / "log").read_text()


def test_a_command_that_does_not_end_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prove_gpu, "_TIMEOUT_S", 0.2)
    assert not prove([Claim("slow", "exec sleep 30")], tmp_path / "log")
    assert "slow: FAILED, no end within 0.2 s" in capsys.readouterr().out


def test_every_command_is_valid_and_its_programs_exist() -> None:
    for claim in claims():
        subprocess.run(["bash", "-n", "-c", claim.command], check=True)
        for script in re.findall(r"deploy/images/\w+\.sh", claim.command):
            assert os.access(CHECKOUT / script, os.X_OK)
        for module in re.findall(r"python -m ([\w.]+)", claim.command):
            assert (CHECKOUT / f"{module.replace('.', '/')}.py").exists() or (
                CHECKOUT / module.replace(".", "/")
            ).is_dir()


@pytest.mark.parametrize(
    ("printed", "code", "proved"),
    [
        ("# code object from '/usr/lib/x.pyc'", 0, True),
        ("# code object from /usr/lib/x.py", 0, False),
        ("no such image", 125, False),
    ],
)
def test_an_image_that_compiles_or_does_not_start_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, code: int, proved: bool
) -> None:
    on_path(tmp_path / "bin", "docker", f'echo "{printed}"; exit {code}', monkeypatch)
    (claim,) = (each for each in claims() if "compiles nothing" in each.text)
    assert prove([claim], tmp_path / "log") is proved
