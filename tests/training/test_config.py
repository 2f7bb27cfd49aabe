"""Run configurations from files and flags; the error for an unknown setting names it."""

from pathlib import Path

import pytest

from training.config import build, changes, data_path, read
from training.errors import ConfigError

CONFIGS = sorted((Path(__file__).parents[2] / "training" / "configs").glob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_configuration_is_valid_and_exports_under_its_name(path: Path) -> None:
    config = read(path)
    assert config.name == path.stem
    # A retraining configuration exports a new version under the name of the existing model.
    assert (config.export.name or config.name) == path.stem.removesuffix("-again")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_printed_configuration_reads_back_as_the_same_run(path: Path, tmp_path: Path) -> None:
    config = read(path)
    (tmp_path / "printed.toml").write_text(config.to_toml())
    assert read(tmp_path / "printed.toml") == config


def test_a_printed_configuration_keeps_names_that_toml_must_quote(tmp_path: Path) -> None:
    config = build(
        {
            "name": 'a "b"\\c\n\x7f ü',
            "data": {"units": {"PM2.5": "µg/m3", "plain": ""}, "sensor_sentinels": {"PM2.5": [-9999.0, 1e-7]}},
            "tune": {"search": {"model.d_model": [32, 64], "train.learning_rate": "1e-4..1e-2"}},
        }
    )
    (tmp_path / "printed.toml").write_text(config.to_toml())
    assert read(tmp_path / "printed.toml") == config


def test_only_settings_that_do_not_affect_the_weights_may_change_in_a_resume() -> None:
    old = build({"train": {"epochs": 5}})
    assert (
        changes(old, build({"train": {"epochs": 9, "patience": 3, "device": "cuda"}, "export": {"version": 2}})) == []
    )
    assert changes(old, build({"train": {"epochs": 5, "learning_rate": 0.1}})) == [
        "train.learning_rate was 0.001, is 0.1"
    ]
    cosine = build({"train": {"epochs": 5, "schedule": "cosine"}})
    assert changes(cosine, build({"train": {"epochs": 6, "schedule": "cosine"}})) == ["train.epochs was 5, is 6"]
    assert (
        changes(old, build({"train": {"epochs": 5}, "masks": {"rates": [0.3, 0.3]}})) == []
    )  # the default, stated explicitly


def test_overrides_win_and_are_typed(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[train]\nepochs = 5\n[data]\nfile = "x.csv"\n')
    config = read(
        file, ["train.epochs=7", "model.residual=true", "data.time=stamp", "data.split=[0.5, 0.2, 0.3]", "name=a"]
    )
    assert (config.name, config.train.epochs, config.model.residual) == ("a", 7, True)
    assert (config.data.time, config.data.split) == ("stamp", (0.5, 0.2, 0.3))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"trian": {}}, "unknown section trian"),
        ({"train": {"epoch": 3}}, "no setting epoch"),
        ({"train": {"epochs": "many"}}, "epochs"),
        ({"train": {"precision": "fp16"}}, "found 'fp16'"),
        ({"train": {"checkpoint_minutes": -1}}, "checkpoint_minutes must be 0 or more"),
        ({"masks": {"pattern": "blocks"}}, "found 'blocks'"),
        ({"model": {"d_model": 30, "heads": 4}}, "multiple of heads"),
        ({"data": {"split": [0.5, 0.5, 0.5]}}, "sum to 1"),
        ({"data": 3}, r"expected \[data\] to be a table"),
    ],
)
def test_invalid_settings_are_rejected(tables: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(tables)


@pytest.mark.parametrize("override", ["epochs=3", "train.epochs"])
def test_an_override_has_section_key_and_value(override: str) -> None:
    with pytest.raises(ConfigError, match="expected an override like"):
        read(None, [override])


def test_the_error_for_an_absent_or_malformed_configuration_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a run's configuration"):
        read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = [")
    with pytest.raises(ConfigError, match="not TOML"):
        read(tmp_path / "bad.toml")


def test_data_is_also_found_in_the_folder_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there.csv").write_text("")
    monkeypatch.setenv("GLAIM_DATA", str(tmp_path))
    assert data_path("there.csv") == tmp_path / "there.csv"
    assert data_path("nowhere.csv") == Path("nowhere.csv")
    with pytest.raises(ConfigError, match="no data file"):
        data_path("")
