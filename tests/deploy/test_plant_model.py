"""The command that trains the demo's model."""

from pathlib import Path

import pytest

from deploy.demo import plant_model


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_the_command_and_simulates_nothing(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plant_model.main([flag]) == 0
    assert "python -m deploy.demo.plant_model" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
