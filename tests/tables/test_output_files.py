"""A file appears whole or not at all."""

import os
from pathlib import Path

import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.tables.output_files import same_file, whole_file


def test_a_failure_leaves_the_file_before_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("before")

    def fail() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        fail()

    assert [each.name for each in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_text() == "before"


def test_a_link_stays_and_permissions_too(tmp_path: Path) -> None:
    path, link = tmp_path / "real.csv", tmp_path / "link.csv"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)

    with whole_file(link) as file:
        file.write(b"after")

    assert (link.is_symlink(), path.read_text(), path.stat().st_mode & 0o777) == (True, "after", 0o640)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_device_is_a_sentence() -> None:
    with (
        pytest.raises(SettingsError, match="/dev/full cannot be written: No space left"),
        whole_file(Path("/dev/full")) as f,
    ):
        f.write(b"x" * 100_000)


def test_a_folder_that_is_absent_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be written: No such file"), whole_file(tmp_path / "a" / "b.csv"):
        pass


def test_a_hard_link_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    os.link(tmp_path / "a", tmp_path / "b")

    assert same_file(tmp_path / "a", tmp_path / "b")
    assert same_file(tmp_path / "new", tmp_path / "." / "new")
    assert not same_file(tmp_path / "a", tmp_path / "new")
