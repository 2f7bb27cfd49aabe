"""Where a learned closed form is kept."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.models import form_folders
from glaim_stream.models.form_folders import form_folder


def test_a_repository_that_can_be_written_holds_it(tmp_path: Path) -> None:
    assert form_folder(tmp_path / "absent", "m", learned=True) == tmp_path / "absent" / "m"


def test_without_a_form_in_a_read_only_repository_a_temporary_folder_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form_folders.os, "access", lambda path, mode: False)  # root may write everywhere
    folder = form_folder(tmp_path, "m", learned=True)
    assert tmp_path not in folder.parents
    assert form_folder(tmp_path, "m", learned=True) == folder
    assert form_folder(tmp_path, "m", learned=False) == tmp_path / "m"
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / FORM_FILE).touch()
    assert form_folder(tmp_path, "m", learned=True) == tmp_path / "m"


def test_temporary_folders_of_killed_processes_are_removed_and_that_of_a_living_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
import os, signal, sys
from glaim_stream.models import form_folders
print(form_folders._temporary(), flush=True)
sys.stdin.read(1)
os.kill(os.getpid(), signal.SIGKILL)
"""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    processes = [
        subprocess.Popen([sys.executable, "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    folders = []
    for process in processes:
        assert process.stdout is not None
        folders.append(Path(process.stdout.readline().strip()))
    processes[0].communicate("x")
    assert all(folder.is_dir() for folder in folders)
    monkeypatch.setattr(tempfile, "tempdir", None)
    own = form_folders._temporary.__wrapped__()
    assert sorted(tmp_path.iterdir()) == sorted([folders[1], own])
    processes[1].communicate("x")
