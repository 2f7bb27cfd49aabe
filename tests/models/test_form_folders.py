"""Where a learned closed form is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from glaim_stream.models import form_folders
from glaim_stream.models.contract import FORM_FILE
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
