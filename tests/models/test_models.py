"""Repositories of models: listed, brought, put up and rolled back, through Arrow's file systems and real renames."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem, SubTreeFileSystem
from typer.testing import CliRunner

from glaim_stream.commands.main import app
from glaim_stream.errors import ModelError
from glaim_stream.models import local
from glaim_stream.models.contract import Contract, file_digest, read_contract, write_contract
from glaim_stream.models.fetch import fetch
from glaim_stream.models.listing import listing
from glaim_stream.models.prune import prune
from glaim_stream.models.push import push
from glaim_stream.models.rollback import rollback
from glaim_stream.models.store import Store, open_store
from glaim_stream.retry import JITTER
from tests.support import contract

Say = Callable[[str], object]


def silent(line: str) -> None:
    """For those who want no lines."""


def make(repository: Path, version: int, *, name: str = "m", weights: str = "", own: bool = True) -> Contract:
    """A version as training writes it; without `own` as it was written before versions had contracts."""
    folder = repository / name / str(version)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_text(weights or f"{name} {version}")
    (repository / name / "config.pbtxt").write_text("config")
    (repository / name / "warmup").mkdir(exist_ok=True)
    (repository / name / "warmup" / "values").write_bytes(b"\0\1")
    made = contract(name=name, version=version, torchscript_sha256=file_digest(folder / "model.pt"))
    write_contract(made, repository / name)
    if own:
        write_contract(made, folder)
    return made


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def as_object_store(folder: Path) -> Store:
    """A store that is not taken for a disk: no renames, as with S3."""
    folder.mkdir(parents=True, exist_ok=True)
    return Store(
        SubTreeFileSystem(str(folder), FileSystem.from_uri(folder.as_uri())[0]), "bucket/models", "s3://bucket"
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two versions of m, one of n."""
    place = tmp_path / "repository"
    make(place, 1)
    make(place, 2)
    make(place, 1, name="n")
    return place


def test_everything_is_listed_with_what_is_wrong(repository: Path) -> None:
    make(repository, 3)
    (repository / "m" / "2" / "model.pt").write_text("something else")
    found = {(each.model, each.version): each for each in listing(open_store(str(repository)))}
    assert {key: each.state for key, each in found.items()} == {
        ("m", 1): "kept", ("m", 2): "served", ("m", 3): "newest", ("n", 1): "newest",
    }  # fmt: skip
    assert [key for key, each in found.items() if each.problem] == [("m", 2)]
    assert "m version 2 has weights of sha256" in found["m", 2].problem


def test_models_come_whole(repository: Path, tmp_path: Path) -> None:
    (repository / "m" / "1" / "__pycache__").mkdir()
    (repository / "m" / "1" / "__pycache__" / "model.pyc").write_bytes(b"code")
    here = tmp_path / "here" / "repository"
    said: list[str] = []
    assert fetch(open_store(repository.as_uri()), here, say=said.append) == 2
    assert said == ["m: versions 1, 2", "n: version 1"]
    expected = tree(repository)
    del expected["m/1/__pycache__/model.pyc"]
    assert tree(here) == expected
    assert [path.name for path in here.parent.iterdir()] == ["repository"], "nothing is left beside it"
    assert fetch(open_store(str(repository)), here, say=said.append) == 0


def test_a_new_version_is_brought_beside_the_old_one(repository: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    fetch(open_store(str(repository)), here, models=["m"], say=silent)
    assert [path.name for path in here.iterdir()] == ["m"]
    folder, weights = (here / "m").stat().st_ino, (here / "m" / "2" / "model.pt").stat()
    make(repository, 3)
    assert fetch(open_store(str(repository)), here, models=["m"], mirror=True, say=silent) == 2  # 3 came and 1 went
    assert (here / "m").stat().st_ino == folder
    assert (here / "m" / "2" / "model.pt").stat().st_mtime_ns == weights.st_mtime_ns
    assert local.versions(here / "m") == [2, 3]
    assert read_contract(here / "m").version == 3


def test_what_was_rolled_back_goes_where_it_is_mirrored(repository: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    fetch(open_store(str(repository)), here, say=silent)
    rollback(open_store(str(repository)), "m", say=silent)
    assert fetch(open_store(str(repository)), here, say=silent) == 0
    assert local.versions(here / "m") == [1, 2], "without mirror nothing is removed"
    assert fetch(open_store(str(repository)), here, mirror=True, say=silent) == 1
    assert local.versions(here / "m") == [1]
    assert read_contract(here / "m").version == 1


def test_a_volume_is_filled_once(repository: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    make(here, 7)
    assert fetch(open_store(str(repository)), here, missing_only=True, say=silent) == 1
    assert local.versions(here / "m") == [7]
    assert local.versions(here / "n") == [1]


def test_two_that_fill_a_volume_at_once_do_not_get_into_each_others_way(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glaim_stream.models import fetch as module

    here = tmp_path / "here"
    verified = module._verified

    def slow(*given: object) -> None:
        verified(*given)  # type: ignore[arg-type]
        if not (here / "m").exists():  # the other one was faster
            monkeypatch.setattr(module, "_verified", verified)
            fetch(open_store(str(repository)), here, missing_only=True, say=silent)

    monkeypatch.setattr(module, "_verified", slow)
    assert fetch(open_store(str(repository)), here, missing_only=True, say=silent) == 0
    assert tree(here) == tree(repository)


@pytest.mark.parametrize("there", [True, False])
def test_weights_that_are_not_their_contracts_are_not_put_in_place(
    there: bool, repository: Path, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    if there:
        fetch(open_store(str(repository)), here, say=silent)
    make(repository, 3)
    (repository / "m" / "3" / "model.pt").write_text("cut sho")
    before = tree(here)
    with pytest.raises(ModelError, match="m version 3 has weights of sha256"):
        fetch(open_store(str(repository)), here, say=silent)
    assert tree(here) == before


def test_a_number_that_stands_for_two_models_is_refused_both_ways(repository: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    make(here, 2, weights="trained here")
    with pytest.raises(ModelError, match="one number stands for two models: m version 2"):
        fetch(open_store(str(repository)), here, say=silent)
    with pytest.raises(ModelError, match="one number stands for two models"):
        push(here, open_store(str(repository)), say=silent)


def test_a_version_counts_in_a_store_once_its_contract_is_there(repository: Path, tmp_path: Path) -> None:
    store = as_object_store(tmp_path / "cloud")
    assert push(repository, store, say=silent) == 3
    assert tree(tmp_path / "cloud" / "bucket" / "models") == tree(repository)
    make(repository, 3)
    copied: list[str] = []
    real = type(store.fs).open_output_stream

    class Watched(SubTreeFileSystem):
        def open_output_stream(self, path: str, *args: object, **options: object) -> object:
            copied.append(path)
            assert (3 in store.versions("m")) == (path.endswith("m/contract.json")), "it counts when all of it is there"
            return real(self, path, *args, **options)

    watched = Store(Watched(str(tmp_path / "cloud"), store.fs.base_fs), store.path, store.said)
    assert push(repository, watched, say=silent) == 1
    assert [path.rpartition("models/")[2] for path in copied] == [
        "m/3/model.pt",
        "m/3/contract.json",
        "m/contract.json",
    ]
    assert store.versions("m") == [1, 2, 3]
    assert push(repository, store, say=silent) == 0


@pytest.mark.parametrize("kind", ["disk", "store"])
def test_a_rollback_takes_the_newest_away_and_its_number_is_never_given_again(
    kind: str, repository: Path, tmp_path: Path
) -> None:
    store = open_store(str(repository))
    root = repository
    if kind == "store":
        store = as_object_store(tmp_path / "cloud")
        push(repository, store, say=silent)
        root = tmp_path / "cloud" / "bucket" / "models"
    if kind == "disk":
        make(repository, 3)
    newest = max(store.versions("m"))
    before = tree(root)
    assert rollback(store, "m", dry_run=True, say=silent) == [newest]
    assert tree(root) == before
    assert rollback(store, "m", say=silent) == [newest]
    assert store.versions("m") == list(range(1, newest))
    assert store.withdrawn("m") == [newest]
    assert read_contract(root / "m").version == newest - 1
    assert read_contract(root / "m") == read_contract(root / "m" / str(newest - 1))
    kept = root.with_name(root.name + ".withdrawn") / "m" / str(newest)
    assert file_digest(kept / "model.pt") == read_contract(kept).torchscript_sha256
    assert local.highest_ever(root / "m") == newest
    states = {each.version: each.state for each in listing(store) if each.model == "m"}
    assert states[newest] == "withdrawn"
    assert not any(each.problem for each in listing(store))
    if kind == "store":
        said: list[str] = []
        assert push(repository, store, say=said.append) == 0
        assert said == [f"m: version {newest} was withdrawn from s3://bucket and is not put up again"]
        assert fetch(store, tmp_path / "here", models=["m"], say=silent) == 1
        assert local.versions(tmp_path / "here" / "m") == [1]


def test_a_number_that_was_withdrawn_elsewhere_is_not_given_to_another_model(repository: Path, tmp_path: Path) -> None:
    store, here = as_object_store(tmp_path / "cloud"), tmp_path / "here"
    push(repository, store, say=silent)
    rollback(store, "m", say=silent)
    fetch(store, here, mirror=True, say=silent)
    assert local.versions(here / "m") == [1]
    assert local.highest_ever(here / "m") == 2, "so the next one that is trained here is 3"
    assert {(each.version, each.state) for each in listing(open_store(str(here))) if each.model == "m"} == {
        (1, "newest"), (2, "withdrawn"),
    }  # fmt: skip
    assert not any(each.problem for each in listing(open_store(str(here))))
    make(here, 2, weights="trained without having looked")
    with pytest.raises(ModelError, match=r"has withdrawn m version 2 .* one number stands for two models"):
        push(here, store, models=["m"], say=silent)


def test_what_cannot_be_rolled_back_stays(repository: Path) -> None:
    store = open_store(str(repository))
    before = tree(repository)
    with pytest.raises(ModelError, match="n has version 1 alone, so there is none to go back to"):
        rollback(store, "n", say=silent)
    with pytest.raises(ModelError, match="expected m version 5, found 1, 2"):
        rollback(store, "m", 5, say=silent)
    with pytest.raises(ModelError, match=r"expected the model other in .*, found m, n"):
        rollback(store, "other", say=silent)
    assert rollback(store, "m", 2, say=silent) == []
    assert tree(repository) == before
    (repository / "m" / "1" / "model.pt").write_text("broken")
    with pytest.raises(ModelError, match="m version 1 has weights of"):
        rollback(store, "m", say=silent)
    assert local.versions(repository / "m") == [1, 2]


def test_several_versions_are_rolled_back_at_once(repository: Path) -> None:
    make(repository, 3)
    make(repository, 5)
    assert rollback(open_store(str(repository)), "m", 1, say=silent) == [2, 3, 5]
    assert local.versions(repository / "m") == [1]
    assert local.highest_ever(repository / "m") == 5


@pytest.mark.parametrize("on_disk", [True, False])
def test_old_weights_go_and_their_contracts_and_numbers_stay(tmp_path: Path, on_disk: bool) -> None:
    place = tmp_path / "bucket" / "models"
    store = open_store(str(place)) if on_disk else as_object_store(tmp_path)
    promised = {version: make(place, version) for version in (1, 2, 3, 4, 5)}
    rollback(store, "m", 4, say=silent)
    before = tree(tmp_path)
    lines: list[str] = []
    assert prune(store, keep=2, dry_run=True, say=lines.append) == [("m", 1), ("m", 2)]
    assert tree(tmp_path) == before
    assert prune(store, keep=2, say=lines.append) == [("m", 1), ("m", 2)]
    assert lines[0::2] == [
        "m: the weights of version 1 would be deleted", "m: the weights of version 1 are deleted",
    ]  # fmt: skip
    assert store.versions("m") == [3, 4]
    assert store.verify("m", 4) == promised[4]
    assert {(each.version, each.state, each.weights) for each in listing(store)} == {
        (1, "pruned", "not here any more"), (2, "pruned", "not here any more"),
        (3, "served", "as the contract says"), (4, "newest", "as the contract says"),
        (5, "withdrawn", "as the contract says"),
    }  # fmt: skip
    assert [store.aside.contract("m", version) for version in (1, 2)] == [promised[1], promised[2]]
    assert prune(store, keep=2, say=silent) == []
    make(tmp_path / "mine", 1)
    assert push(tmp_path / "mine", store, say=silent) == 0, "its number was given"
    with pytest.raises(ModelError, match=r"expected m version 2, found 3, 4"):
        rollback(store, "m", 2, say=silent)


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_pruning_that_was_cut_short_is_finished_by_the_next(tmp_path: Path, on_disk: bool) -> None:
    place = tmp_path / "bucket" / "models"
    store = open_store(str(place)) if on_disk else as_object_store(tmp_path)
    for version in (1, 2, 3):
        make(place, version)
    aside = local.withdrawn(place / "m") / "1"
    aside.parent.mkdir(parents=True)
    if on_disk:  # killed after its rename
        local.move(place / "m" / "1", aside)
    else:  # killed before the weights went
        aside.mkdir()
        (place / "m" / "1" / "contract.json").rename(aside / "contract.json")
    assert prune(store, keep=2, say=silent) == [("m", 1)]
    assert [path.name for path in aside.iterdir()] == ["contract.json"]
    assert store.folders("m") == [2, 3]


def test_what_triton_serves_is_never_pruned(repository: Path) -> None:
    with pytest.raises(ModelError, match="expected 2 versions or more to keep"):
        prune(open_store(str(repository)), keep=1, say=silent)
    with pytest.raises(ModelError, match=r"expected x in .*, found m, n"):
        prune(open_store(str(repository)), keep=2, models=["x"], say=silent)


def test_the_contract_of_a_repository_from_before_is_kept_when_a_version_joins(tmp_path: Path) -> None:
    first = make(tmp_path / "r", 1, own=False)
    with local.staging(tmp_path / "r") as made:
        second = make(made, 2)
        local.join(made / "m", tmp_path / "r" / "m", 2)
    assert read_contract(tmp_path / "r" / "m") == second
    rollback(open_store(str(tmp_path / "r")), "m", say=silent)
    assert read_contract(tmp_path / "r" / "m") == first


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("ftp://host/models", "expected a path, or a URI"),
        ("s3://bucket?region=eu-central-1", "expected a folder in a bucket"),
    ],
)
def test_what_is_no_repository_is_said(said: str, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        open_store(said)


def test_what_somebody_left_who_was_killed_goes_after_a_day(tmp_path: Path) -> None:
    left, at_work = tmp_path / "r.staging" / "left", tmp_path / "r.staging" / "at-work"
    for folder, age_s in ((left, 90_000), (at_work, 80_000)):
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age_s,) * 2)
    with local.staging(tmp_path / "r"):
        assert at_work.exists()
        assert not left.exists()
    assert [path.name for path in (tmp_path / "r.staging").iterdir()] == ["at-work"]


def test_a_repository_that_cannot_be_written_to_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(local.tempfile, "mkdtemp", full)
    with (
        pytest.raises(ModelError, match=r"expected to write in .* Read-only file system"),
        local.staging(tmp_path / "r"),
    ):
        pass


def test_the_commands_say_what_they_did(repository: Path, tmp_path: Path) -> None:
    run = CliRunner()
    here = tmp_path / "here"
    brought = run.invoke(app, ["models", "fetch", str(repository), "--to", str(here), "--model", "m"])
    assert (brought.exit_code, brought.output) == (0, "m: versions 1, 2\n")
    again = run.invoke(app, ["models", "fetch", str(repository), "--to", str(here), "--model", "m"])
    assert again.output == f"{here}: nothing new in {repository}\n"
    put_up = run.invoke(app, ["models", "push", str(repository), (tmp_path / "up").as_uri(), "--model", "n"])
    assert (put_up.exit_code, put_up.output) == (0, "n: version 1\n")
    back = run.invoke(app, ["models", "rollback", str(here), "m", "--dry-run"])
    assert back.output.splitlines() == [
        f"m: version 2 would be withdrawn, to {here}.withdrawn/m", "m: version 1 would be the newest",
    ]  # fmt: skip
    old = run.invoke(app, ["models", "prune", str(here), "--keep", "2"])
    assert (old.exit_code, old.output) == (0, f"{here}: nothing older than the newest 2 versions\n")
    assert run.invoke(app, ["models", "list", str(here)]).exit_code == 0
    shutil.copy(here / "m" / "1" / "model.pt", here / "m" / "2" / "model.pt")
    assert run.invoke(app, ["models", "list", str(here)]).exit_code == 1


def test_a_store_that_is_away_for_a_moment_is_asked_again(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glaim_stream.commands import models

    pauses: list[float] = []
    monkeypatch.setattr(models.time, "sleep", pauses.append)
    answers = iter([OSError("away"), OSError("away"), None])

    def sometimes() -> int:
        answer = next(answers)
        if answer is not None:
            raise answer
        return 3

    assert models._persistently(sometimes, 5) == 3
    assert len(pauses) == 2
    assert 1 - JITTER <= pauses[0] <= 1.0
    assert 2 * (1 - JITTER) <= pauses[1] <= 2.0
    with pytest.raises(ModelError, match="after 2 tries: gone"):
        models._persistently(lambda: (_ for _ in ()).throw(OSError("gone")), 2)
