"""A new version in a repository: added atomically beside the old one, never with other windows."""

import dataclasses
from pathlib import Path

import pytest

from glaim_stream.core.contract import Contract, DataFingerprint, SensorContract, read_contract, sensors_digest
from glaim_stream.core.contract import write_contract as write
from glaim_stream.core.errors import ModelError
from glaim_stream.models import open_store, version_numbers
from glaim_stream.models.hold import hold
from training.config import ExportSpec
from training.errors import ExportError
from training.serve.repository import placed, put

SENSORS = ("a", "b")


def contract(version: int) -> Contract:
    sensors = [SensorContract(id=name, mean=0, std=1, minimum=-1, maximum=1, resolution=1e-4) for name in SENSORS]
    return Contract(
        name="m", version=version, window=24, emitted_steps=6, step_s=60, sensors=sensors,
        sensors_sha256=sensors_digest(SENSORS), masks=["block"], metrics={},
        data=DataFingerprint(source="a.csv", rows=1, sha256="0"), torchscript_sha256="0", git_commit="unknown",
        torch_version="2", created="2026-01-01T00:00:00",
    )  # fmt: skip


def staged(root: Path, version: int, weights: str = "w") -> Path:
    staging = root / ".m-staging"
    (staging / str(version)).mkdir(parents=True)
    (staging / str(version) / "model.pt").write_text(weights)
    (staging / "config.pbtxt").write_text(f"config of {version}")
    write(contract(version), staging)
    return staging


def place(root: Path, **changes: object) -> ExportSpec:
    settings: dict[str, object] = {"window": 24, "sensors": SENSORS, "step_s": 60.0, "version": 1, "emitted_steps": 6}
    settings |= changes
    spec = ExportSpec("m", settings["version"], str(root), settings["emitted_steps"])  # type: ignore[arg-type]
    return placed(spec, settings["window"], settings["sensors"], settings["step_s"])  # type: ignore[arg-type]


def test_version_0_means_the_next_version(tmp_path: Path) -> None:
    assert place(tmp_path, version=0).version == 1
    put(staged(tmp_path, 1), tmp_path / "m", 1)
    assert place(tmp_path, version=0).version == 2
    (tmp_path / "m" / "10").mkdir()
    (tmp_path / "m" / "warmup").mkdir()
    assert version_numbers(tmp_path / "m") == [1, 10]
    assert place(tmp_path, version=0).version == 11


def test_a_version_below_the_served_one_is_rejected(tmp_path: Path) -> None:
    put(staged(tmp_path, 2), tmp_path / "m", 2)
    with pytest.raises(ExportError, match=r"holds version 2 .* give export.version = 3, or 0"):
        place(tmp_path, version=1)
    assert place(tmp_path, version=2).version == 2
    with pytest.raises(ExportError, match="found -1"):
        place(tmp_path, version=-1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sensors": ("b", "a")}, r"with sensors \['a', 'b'\], found \['b', 'a'\]"),
        ({"sensors": ("a", "b", "c")}, r"found \['a', 'b', 'c'\]"),
        ({"window": 96}, "window 24, found 96"),
        ({"step_s": 30.0}, "step_s 60.0, found 30.0"),
        ({"emitted_steps": 8}, "emitted_steps 6, found 8"),
    ],
)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_error_for_a_version_with_other_windows_names_the_difference(
    tmp_path: Path, changes: dict[str, object], message: str, version: int
) -> None:
    put(staged(tmp_path, 1), tmp_path / "m", 1)
    with pytest.raises(ExportError, match=message):
        place(tmp_path, version=version, **changes)


def test_a_new_version_leaves_the_files_of_the_old_one_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "m"
    put(staged(tmp_path, 1, "old"), target, 1)
    folder = target.stat().st_ino
    old = (target / "1" / "model.pt").stat()
    put(staged(tmp_path, 2, "new"), target, 2)
    assert target.stat().st_ino == folder  # the folder must stay the same, because it may be mounted or watched
    assert (target / "1" / "model.pt").stat().st_mtime_ns == old.st_mtime_ns
    assert (target / "2" / "model.pt").read_text() == "new"
    assert read_contract(target).version == 2
    assert (target / "config.pbtxt").read_text() == "config of 1"


def test_the_contract_never_names_a_version_that_does_not_exist_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "m"
    put(staged(tmp_path, 1), target, 1)
    rename, seen = Path.rename, []

    def watched(self: Path, to: Path) -> Path:
        for moment in ("before", "after"):
            version = read_contract(target).version
            assert (target / str(version) / "model.pt").is_file()
            seen.append((moment, version))
            if moment == "before":
                result = rename(self, to)
        return result

    monkeypatch.setattr(Path, "rename", watched)
    put(staged(tmp_path, 2), target, 2)
    assert seen == [("before", 1), ("after", 1), ("before", 1), ("after", 2)]


def test_a_version_that_cannot_be_completed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "m"
    put(staged(tmp_path, 1), target, 1)
    staging = staged(tmp_path, 2)
    (staging / "contract.json").unlink()
    with pytest.raises(OSError, match="contract"):
        put(staging, target, 2)
    assert version_numbers(target) == [1]
    assert read_contract(target).version == 1


def test_writing_a_version_again_replaces_only_that_version(tmp_path: Path) -> None:
    target = tmp_path / "m"
    put(staged(tmp_path, 1, "first"), target, 1)
    put(staged(tmp_path, 2, "second"), target, 2)
    put(staged(tmp_path, 2, "again"), target, 2)
    assert (target / "1" / "model.pt").read_text() == "first"
    assert (target / "2" / "model.pt").read_text() == "again"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_the_next_version_is_not_stored_in_the_settings(tmp_path: Path) -> None:
    spec = ExportSpec("m", 0, str(tmp_path), 6)
    assert placed(spec, 24, SENSORS, 60.0) == dataclasses.replace(spec, version=1)
    assert spec.version == 0


def test_a_model_that_is_held_after_a_rollback_takes_no_version(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    put(staged(repository, 1), repository / "m", 1)
    made = staged(repository, 2)
    hold(open_store(str(repository)), "m", [2], 1, now_ms=0)
    with pytest.raises(ModelError, match=r"m is held at version 1 since 1970-01-01.*models release"):
        place(repository, version=0)
    with pytest.raises(ModelError, match="is held at version 1"):
        put(made, repository / "m", 3)
    assert version_numbers(repository / "m") == [1]
