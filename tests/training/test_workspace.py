"""The folders of runs: old runs are removed, the current one and other folders are kept."""

import os
from pathlib import Path

import pytest

from training.errors import ConfigError
from training.workspace import MARK, main, prepare


def runs(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_old_runs_are_removed_and_the_resumed_one_is_kept(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    for age, name in enumerate(["e", "d", "c", "b", "a"]):
        assert main([str(tmp_path), "--run", name, "--keep", "9"]) == 0
        os.utime(tmp_path / name / MARK, (age, age))
    (tmp_path / "e" / "last.pt").write_text("checkpoint of a stopped training")
    assert prepare(tmp_path, "e", 2) == ["d", "c"]
    assert runs(tmp_path) == ["a", "b", "e", "lost+found"]
    assert (tmp_path / "e" / "last.pt").exists()
    assert prepare(tmp_path, "f", 2) == ["b"], "e is not running any more, but is the newest"
    assert runs(tmp_path) == ["a", "e", "f", "lost+found"]


@pytest.mark.parametrize("name", ["../elsewhere", "", ".hidden", "a/b"])
def test_a_name_cannot_point_outside_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="expected a run's name"):
        prepare(tmp_path / "work", name, 2)
    assert not (tmp_path / "work").exists()


def test_an_unwritable_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "work").write_text("a file")
    assert main([str(tmp_path / "work"), "--run", "a"]) == 2
    assert "expected to write in" in capsys.readouterr().err
