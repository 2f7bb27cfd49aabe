"""Published files in their original forms are read right, or raise a question."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import text_of_ms
from glaim_stream.files.read import read

FOLDER = Path(__file__).parent / "real_files"
TABLE: list[dict[str, Any]] = tomllib.loads((FOLDER / "table.toml").read_text())["file"]


@pytest.mark.parametrize("stated", [each for each in TABLE if "asks" not in each], ids=lambda each: each["name"])
def test_a_published_file_is_read_without_a_flag(stated: dict[str, Any]) -> None:
    reading = read(FOLDER / stated["name"])
    form = reading.form
    found = {
        "time": form.time,
        "first": text_of_ms(form.first_ms),
        "last": text_of_ms(form.last_ms),
        "step_s": form.step_ms / 1000,
        "rows": reading.rows,
        "sensors": list(form.sensors),
        "missing": np.isnan(reading.values).sum(axis=1).tolist(),
        "groups": list(reading.groups),
        "unused": list(form.unused),
        "sentinels": [[each.column, each.value, each.count, each.taken] for each in form.sentinels],
    }
    expected = {"groups": [], "unused": [], "sentinels": []} | {name: stated[name] for name in found if name in stated}
    assert found == expected
    assert [note for note in form.notes if not note.startswith("left out: ")] == stated["notes"]


@pytest.mark.parametrize("stated", [each for each in TABLE if "asks" in each], ids=lambda each: each["name"])
def test_a_published_file_that_fits_twice_or_has_no_names_raises_a_question(stated: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        read(FOLDER / stated["name"])
    assert stated["asks"] in str(caught.value)


def test_every_file_states_its_source_and_licence() -> None:
    names = {path.name for path in FOLDER.iterdir()} - {"table.toml"}
    assert names == {each["name"] for each in TABLE}
    assert all(each["source"] and each["licence"] and each["package"] for each in TABLE)
    assert len({each["source"].split(",")[0] for each in TABLE}) >= 12
