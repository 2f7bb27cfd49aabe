"""Model repositories: list, fetch, push, roll back and prune, with Arrow's file systems and real renames."""

import os
import shutil
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem, SubTreeFileSystem
from typer.testing import CliRunner

from glaim_stream.commands.main import app
from glaim_stream.core.contract import Contract, file_digest, read_contract, write_contract
from glaim_stream.core.errors import ModelError
from glaim_stream.core.retry import JITTER
from glaim_stream.models import local
from glaim_stream.models.fetch import fetch
from glaim_stream.models.hold import held, release, require_folder_released
from glaim_stream.models.listing import listing
from glaim_stream.models.prune import prune
from glaim_stream.models.push import push
from glaim_stream.models.rollback import rollback
from glaim_stream.models.store import Store, open_store
from tests.support import contract, torchscript


def silent(line: str) -> None:
    """Discard a line of progress."""


def make(
    repository: Path, version: int, *, name: str = "m", weights: str = "", version_contract: bool = True
) -> Contract:
    """Write a version as training does; older versions have no contract in their folder (`version_contract`)."""
    folder = repository / name / str(version)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(torchscript(note=weights or f"{name} {version}"))
    (repository / name / "config.pbtxt").write_text("config")
    (repository / name / "warmup").mkdir(exist_ok=True)
    (repository / name / "warmup" / "values").write_bytes(b"\0\1")
    made = contract(name=name, version=version, torchscript_sha256=file_digest(folder / "model.pt"))
    write_contract(made, repository / name)
    if version_contract:
        write_contract(made, folder)
    return made


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def as_object_store(folder: Path) -> Store:
    """A store without renames, as S3."""
    folder.mkdir(parents=True, exist_ok=True)
    return Store(
        SubTreeFileSystem(str(folder), FileSystem.from_uri(folder.as_uri())[0]), "bucket/models", "s3://bucket"
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two versions of m and one of n."""
    path = tmp_path / "repository"
    make(path, 1)
    make(path, 2)
    make(path, 1, name="n")
    return path


def test_every_version_is_listed_with_its_problem(repository: Path) -> None:
    make(repository, 3)
    (repository / "m" / "2" / "model.pt").write_text("something else")
    found = {(each.model, each.version): each for each in listing(open_store(str(repository)))}
    assert {key: each.state for key, each in found.items()} == {
        ("m", 1): "kept", ("m", 2): "served", ("m", 3): "newest", ("n", 1): "newest",
    }  # fmt: skip
    assert [key for key, each in found.items() if each.problem] == [("m", 2)]
    assert "m version 2 has weights of sha256" in found["m", 2].problem


def test_complete_models_are_fetched(repository: Path, tmp_path: Path) -> None:
    (repository / "m" / "1" / "__pycache__").mkdir()
    (repository / "m" / "1" / "__pycache__" / "model.pyc").write_bytes(b"code")
    here = tmp_path / "here" / "repository"
    lines: list[str] = []
    assert fetch(open_store(repository.as_uri()), here, say=lines.append) == 2
    assert lines == ["m: versions 1, 2", "n: version 1"]
    expected = tree(repository)
    del expected["m/1/__pycache__/model.pyc"]
    assert tree(here) == expected
    assert [path.name for path in here.parent.iterdir()] == ["repository"], "no temporary folder is left beside it"
    assert fetch(open_store(str(repository)), here, say=lines.append) == 0


def test_a_new_version_is_fetched_beside_the_old_one(repository: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    fetch(open_store(str(repository)), here, models=["m"], say=silent)
    assert [path.name for path in here.iterdir()] == ["m"]
    folder, weights = (here / "m").stat().st_ino, (here / "m" / "2" / "model.pt").stat()
    make(repository, 3)
    assert (
        fetch(open_store(str(repository)), here, models=["m"], mirror=True, say=silent) == 2
    )  # version 3 added, version 1 removed
    assert (here / "m").stat().st_ino == folder
    assert (here / "m" / "2" / "model.pt").stat().st_mtime_ns == weights.st_mtime_ns
    assert local.version_numbers(here / "m") == [2, 3]
    assert read_contract(here / "m").version == 3


def test_a_mirror_removes_rolled_back_versions(repository: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    fetch(open_store(str(repository)), here, say=silent)
    rollback(open_store(str(repository)), "m", say=silent)
    assert fetch(open_store(str(repository)), here, say=silent) == 0
    assert local.version_numbers(here / "m") == [1, 2], "without mirror nothing is removed"
    assert fetch(open_store(str(repository)), here, mirror=True, say=silent) == 1
    assert local.version_numbers(here / "m") == [1]
    assert read_contract(here / "m").version == 1


def test_with_missing_only_existing_models_stay_unchanged(repository: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    make(here, 7)
    assert fetch(open_store(str(repository)), here, missing_only=True, say=silent) == 1
    assert local.version_numbers(here / "m") == [7]
    assert local.version_numbers(here / "n") == [1]


def test_two_processes_may_fill_a_volume_at_once(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("glaim_stream.models.fetch")  # the door of the package has the function of that name
    here = tmp_path / "here"
    verify_weights = module._verify_weights

    def overtaken(*arguments: object) -> None:
        verify_weights(*arguments)  # type: ignore[arg-type]
        if not (here / "m").exists():  # another process finishes first
            monkeypatch.setattr(module, "_verify_weights", verify_weights)
            fetch(open_store(str(repository)), here, missing_only=True, say=silent)

    monkeypatch.setattr(module, "_verify_weights", overtaken)
    assert fetch(open_store(str(repository)), here, missing_only=True, say=silent) == 0
    assert tree(here) == tree(repository)


@pytest.mark.parametrize("exists", [True, False])
def test_weights_that_do_not_match_their_contract_are_not_put_in_place(
    exists: bool, repository: Path, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    if exists:
        fetch(open_store(str(repository)), here, say=silent)
    make(repository, 3)
    (repository / "m" / "3" / "model.pt").write_text("cut sho")
    before = tree(here)
    with pytest.raises(ModelError, match="m version 3 has weights of sha256"):
        fetch(open_store(str(repository)), here, say=silent)
    assert tree(here) == before


def test_two_models_with_the_same_number_are_rejected_by_fetch_and_push(repository: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    make(here, 2, weights="trained here")
    with pytest.raises(ModelError, match="two models have the same number: m version 2"):
        fetch(open_store(str(repository)), here, say=silent)
    with pytest.raises(ModelError, match="two models have the same number"):
        push(here, open_store(str(repository)), say=silent)


def test_a_pushed_version_is_visible_once_its_contract_is_uploaded(repository: Path, tmp_path: Path) -> None:
    store = as_object_store(tmp_path / "cloud")
    assert push(repository, store, say=silent) == 3
    assert tree(tmp_path / "cloud" / "bucket" / "models") == tree(repository)
    make(repository, 3)
    uploaded: list[str] = []
    open_output_stream = type(store.fs).open_output_stream

    class Watched(SubTreeFileSystem):
        def open_output_stream(self, path: str, *args: object, **options: object) -> object:
            uploaded.append(path)
            assert (3 in store.versions("m")) == (path.endswith("m/contract.json")), "visible only when complete"
            return open_output_stream(self, path, *args, **options)

    watched = Store(Watched(str(tmp_path / "cloud"), store.fs.base_fs), store.path, store.location)
    assert push(repository, watched, say=silent) == 1
    assert [path.rpartition("models/")[2] for path in uploaded] == [
        "m/3/model.pt",
        "m/3/contract.json",
        "m/contract.json",
    ]
    assert store.versions("m") == [1, 2, 3]
    assert push(repository, store, say=silent) == 0


@pytest.mark.parametrize("kind", ["disk", "store"])
def test_a_rollback_withdraws_the_newest_version_and_its_number_is_never_reused(
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
        lines: list[str] = []
        assert push(repository, store, say=lines.append) == 0
        assert lines == [f"m: version {newest} was withdrawn from s3://bucket and is not pushed again"]
        assert fetch(store, tmp_path / "here", models=["m"], say=silent) == 1
        assert local.version_numbers(tmp_path / "here" / "m") == [1]


@pytest.mark.parametrize("kind", ["disk", "store"])
def test_the_first_version_is_withdrawn_put_back_and_followed_by_a_mirror(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "bucket" / "models"
    promised = make(root, 1, version_contract=False)
    store = open_store(str(root)) if kind == "disk" else as_object_store(tmp_path)
    mirror, lines = tmp_path / "mirror", list[str]()
    fetch(store, mirror, mirror=True, say=silent)
    before = tree(tmp_path)
    assert rollback(store, "m", 0, dry_run=True, say=lines.append) == [1]
    assert tree(tmp_path) == before
    assert lines[-1] == "m: no version would be left: last value and interpolation fill: it has no form"
    assert rollback(store, "m", 0, say=silent) == [1]
    assert not list(root.rglob("contract.json"))
    assert [(each.version, each.state, each.weights) for each in listing(store)] == [
        (1, "withdrawn", "match the contract"),
    ]  # fmt: skip
    assert "held without a version since" in str(held(store, "m"))
    assert local.highest_ever(root / "m") == 1
    assert fetch(store, mirror, mirror=True, say=silent) == 1
    assert fetch(store, mirror, mirror=True, say=silent) == 0
    assert local.all_withdrawn(mirror / "m")
    assert not list(mirror.rglob("contract.json"))
    assert rollback(store, "m", 0, say=silent) == []
    with pytest.raises(ModelError, match="has no version; withdrawn are 1, so there is no earlier one"):
        rollback(store, "m", say=silent)
    assert rollback(store, "m", 1, say=silent) == []
    assert store.verify("m", 1) == promised == read_contract(root / "m")
    assert (store.withdrawn("m"), held(store, "m").withdrawn) == ([], [])
    assert fetch(store, mirror, mirror=True, say=silent) == 1
    assert read_contract(mirror / "m") == promised


def test_a_withdrawn_version_is_put_back_over_the_others_and_a_damaged_one_is_not(repository: Path) -> None:
    store = open_store(str(repository))
    rollback(store, "m", say=silent)
    make(repository, 3)
    assert rollback(store, "m", 2, say=silent) == [3]
    assert (store.versions("m"), store.withdrawn("m"), read_contract(repository / "m").version) == ([1, 2], [3], 2)
    (local.withdrawn(repository / "m") / "3" / "model.pt").write_text("broken")
    before = tree(repository)
    with pytest.raises(ModelError, match="m version 3 has weights of"):
        rollback(store, "m", 3, say=silent)
    assert tree(repository) == before


def test_a_number_that_was_withdrawn_elsewhere_is_not_reused(repository: Path, tmp_path: Path) -> None:
    store, here = as_object_store(tmp_path / "cloud"), tmp_path / "here"
    push(repository, store, say=silent)
    rollback(store, "m", say=silent)
    fetch(store, here, mirror=True, say=silent)
    assert local.version_numbers(here / "m") == [1]
    assert local.highest_ever(here / "m") == 2, "so the next version trained here is 3"
    assert {(each.version, each.state) for each in listing(open_store(str(here))) if each.model == "m"} == {
        (1, "newest"), (2, "withdrawn"),
    }  # fmt: skip
    assert not any(each.problem for each in listing(open_store(str(here))))
    make(here, 2, weights="trained without a fetch")
    with pytest.raises(ModelError, match=r"has withdrawn m version 2 .* two models have the same number"):
        push(here, store, models=["m"], say=silent)


def test_a_failed_rollback_changes_nothing(repository: Path) -> None:
    store = open_store(str(repository))
    before = tree(repository)
    with pytest.raises(ModelError, match="n has only version 1, so there is no earlier one"):
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
    assert local.version_numbers(repository / "m") == [1, 2]


def test_several_versions_are_rolled_back_at_once(repository: Path) -> None:
    make(repository, 3)
    make(repository, 5)
    assert rollback(open_store(str(repository)), "m", 1, say=silent) == [2, 3, 5]
    assert local.version_numbers(repository / "m") == [1]
    assert local.highest_ever(repository / "m") == 5


@pytest.mark.parametrize("on_disk", [True, False])
def test_pruning_deletes_old_weights_and_keeps_their_contracts_and_numbers(tmp_path: Path, on_disk: bool) -> None:
    root = tmp_path / "bucket" / "models"
    store = open_store(str(root)) if on_disk else as_object_store(tmp_path)
    promised = {version: make(root, version) for version in (1, 2, 3, 4, 5)}
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
        (1, "pruned", "no longer here"), (2, "pruned", "no longer here"),
        (3, "served", "match the contract"), (4, "newest", "match the contract"),
        (5, "withdrawn", "match the contract"),
    }  # fmt: skip
    assert [store.aside.contract("m", version) for version in (1, 2)] == [promised[1], promised[2]]
    assert prune(store, keep=2, say=silent) == []
    make(tmp_path / "mine", 1)
    assert push(tmp_path / "mine", store, say=silent) == 0, "its number is taken"
    with pytest.raises(ModelError, match=r"expected m version 2, found 3, 4"):
        rollback(store, "m", 2, say=silent)


@pytest.mark.parametrize("on_disk", [True, False])
def test_an_interrupted_pruning_is_finished_by_the_next_one(tmp_path: Path, on_disk: bool) -> None:
    root = tmp_path / "bucket" / "models"
    store = open_store(str(root)) if on_disk else as_object_store(tmp_path)
    for version in (1, 2, 3):
        make(root, version)
    aside = local.withdrawn(root / "m") / "1"
    aside.parent.mkdir(parents=True)
    if on_disk:  # killed after its rename
        local.move(root / "m" / "1", aside)
    else:  # killed before the weights were deleted
        aside.mkdir()
        (root / "m" / "1" / "contract.json").rename(aside / "contract.json")
    assert prune(store, keep=2, say=silent) == [("m", 1)]
    assert [path.name for path in aside.iterdir()] == ["contract.json"]
    assert store.folders("m") == [2, 3]


def test_versions_that_triton_serves_are_never_pruned(repository: Path) -> None:
    with pytest.raises(ModelError, match="expected 2 versions or more to keep"):
        prune(open_store(str(repository)), keep=1, say=silent)
    with pytest.raises(ModelError, match=r"expected x in .*, found m, n"):
        prune(open_store(str(repository)), keep=2, models=["x"], say=silent)


def test_the_contract_of_an_older_repository_is_kept_when_a_version_joins(tmp_path: Path) -> None:
    first = make(tmp_path / "r", 1, version_contract=False)
    with local.staging(tmp_path / "r") as made:
        second = make(made, 2)
        local.join(made / "m", tmp_path / "r" / "m", 2)
    assert read_contract(tmp_path / "r" / "m") == second
    rollback(open_store(str(tmp_path / "r")), "m", say=silent)
    assert read_contract(tmp_path / "r" / "m") == first


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("ftp://host/models", "expected a path, or a URI"),
        ("s3://bucket?region=eu-central-1", "expected a folder in a bucket"),
    ],
)
def test_an_unsupported_location_is_rejected(location: str, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        open_store(location)


def test_staging_folders_of_killed_processes_are_removed_after_a_day(tmp_path: Path) -> None:
    abandoned, in_use = tmp_path / "r.staging" / "abandoned", tmp_path / "r.staging" / "in-use"
    for folder, age_s in ((abandoned, 90_000), (in_use, 80_000)):
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age_s,) * 2)
    with local.staging(tmp_path / "r"):
        assert in_use.exists()
        assert not abandoned.exists()
    assert [path.name for path in (tmp_path / "r.staging").iterdir()] == ["in-use"]


def test_a_repository_that_cannot_be_written_to_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> str:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(local.tempfile, "mkdtemp", read_only)
    with (
        pytest.raises(ModelError, match=r"expected to write in .* Read-only file system"),
        local.staging(tmp_path / "r"),
    ):
        pass


def test_the_commands_report_their_changes(repository: Path, tmp_path: Path) -> None:
    run = CliRunner()
    here = tmp_path / "here"
    fetched = run.invoke(app, ["models", "fetch", str(repository), "--to", str(here), "--model", "m"])
    assert (fetched.exit_code, fetched.output) == (0, "m: versions 1, 2\n")
    again = run.invoke(app, ["models", "fetch", str(repository), "--to", str(here), "--model", "m"])
    assert again.output == f"{here}: nothing new in {repository}\n"
    pushed = run.invoke(app, ["models", "push", str(repository), (tmp_path / "up").as_uri(), "--model", "n"])
    assert (pushed.exit_code, pushed.output) == (0, "n: version 1\n")
    rolled_back = run.invoke(app, ["models", "rollback", str(here), "m", "--dry-run"])
    assert rolled_back.output.splitlines() == [
        f"m: version 2 would be withdrawn, to {here}.withdrawn/m", "m: version 1 would be the newest",
    ]  # fmt: skip
    pruned = run.invoke(app, ["models", "prune", str(here), "--keep", "2"])
    assert (pruned.exit_code, pruned.output) == (0, f"{here}: nothing older than the newest 2 versions\n")
    assert run.invoke(app, ["models", "list", str(here)]).exit_code == 0
    shutil.copy(here / "m" / "1" / "model.pt", here / "m" / "2" / "model.pt")
    assert run.invoke(app, ["models", "list", str(here)]).exit_code == 1


class Clock:
    """Stands for the module `time` in one module alone: a thread of another test must not call `sleep` of this one."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.sleep = sleep


def test_an_empty_repository_is_waited_for_and_a_damaged_version_is_none_of_its_business(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glaim_stream.commands import models

    run, here = CliRunner(), tmp_path / "here"
    in_vain = run.invoke(app, ["models", "wait", str(here), "--for", "0"])
    assert isinstance(in_vain.exception, ModelError)
    assert f"expected a model in {here} within 0 s, found none" in str(in_vain.exception)

    def fill(pause_s: float) -> None:
        shutil.copytree(repository, here)
        shutil.copy(here / "m" / "1" / "model.pt", here / "m" / "2" / "model.pt")

    monkeypatch.setattr(models, "time", Clock(fill))
    waited = run.invoke(app, ["models", "wait", str(here)])
    assert waited.exit_code == 0
    assert f"expected a model in {here}, found none; waiting" in waited.output
    shutil.rmtree(here)
    fetched = run.invoke(
        app, ["models", "fetch", str(here), "--to", str(tmp_path / "n"), "--model", "n", "--wait", "60"]
    )
    assert (fetched.exit_code, fetched.output.splitlines()[-1]) == (0, "n: version 1")


def test_a_repository_that_cannot_be_reached_is_waited_for(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from glaim_stream.commands import models

    store = open_store(str(repository))
    answers: list[object] = [OSError("away"), OSError("away"), ["m"]]

    def known() -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return ["m"]

    monkeypatch.setattr(type(store), "models", lambda self: known())
    monkeypatch.setattr(models, "time", Clock(lambda pause_s: None))
    models._await_models(store, 60)
    assert capsys.readouterr().err == f"expected a model in {store.location}, found away; waiting\n"
    assert answers == []


def test_a_call_to_a_temporarily_unavailable_store_is_retried(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glaim_stream.commands import models

    pauses: list[float] = []
    monkeypatch.setattr(models, "time", Clock(pauses.append))
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


@pytest.mark.parametrize("kind", ["disk", "store"])
def test_a_rolled_back_model_takes_no_version_until_it_is_released(kind: str, repository: Path, tmp_path: Path) -> None:
    here, store = repository, open_store(str(repository))
    if kind == "store":
        store = as_object_store(tmp_path / "cloud")
        push(repository, store, say=silent)
    assert held(store, "m") is None
    rollback(store, "m", dry_run=True, say=silent)
    assert held(store, "m") is None
    lines: list[str] = []
    rollback(store, "m", say=lines.append)
    found = held(store, "m")
    assert found is not None
    assert (found.withdrawn, found.newest) == ([2], 1)
    assert f"`glaim-stream models release {store.location} m`" in lines[-1]
    assert held(store, "n") is None

    if kind == "store":
        here = tmp_path / "training"
        fetch(store, here, mirror=True, say=silent)
        with pytest.raises(ModelError, match=r"m is held at version 1 since .*: version 2 rolled back"):
            require_folder_released(here / "m")
    else:
        here = tmp_path / "elsewhere"
        make(here, 1)
    make(here, 3, weights="the like of version 2")
    with pytest.raises(ModelError, match=r"m is held at version 1 .* takes no new version .*models release"):
        push(here, store, models=["m"], say=silent)
    assert 3 not in store.versions("m")

    assert release(store, "m")
    assert not release(store, "m")
    if kind == "store":
        fetch(store, here, say=silent)
        assert held(open_store(str(here)), "m") is not None, "only a mirror follows"
        fetch(store, tmp_path / "training", models=["n"], mirror=True, say=silent)
        fetch(store, tmp_path / "again", mirror=True, say=silent)
        require_folder_released(tmp_path / "again" / "m")
        assert push(here, store, models=["m"], say=silent) == 1
        assert store.versions("m") == [1, 3]


def test_a_hold_names_all_versions_that_were_withdrawn_under_it(repository: Path) -> None:
    make(repository, 3)
    store = open_store(str(repository))
    rollback(store, "m", say=silent)
    first = held(store, "m")
    rollback(store, "m", say=silent)
    found = held(store, "m")
    assert first is not None
    assert found is not None
    assert (found.withdrawn, found.newest, found.since_ms) == ([2, 3], 1, first.since_ms)


@pytest.mark.parametrize("kind", ["disk", "store"])
def test_pruning_keeps_what_a_hold_and_the_next_rollback_need(kind: str, repository: Path, tmp_path: Path) -> None:
    """Versions that came in beside the hold, by hand, must not push it out of the newest ones."""
    make(repository, 3)
    store = open_store(str(repository))
    if kind == "store":
        store = as_object_store(tmp_path / "cloud")
        push(repository, store, say=silent)
    rollback(store, "m", say=silent)
    for version in (4, 5, 6):
        make(tmp_path / "by-hand", version)
        for path, content in tree(tmp_path / "by-hand" / "m" / str(version)).items():
            store.fs.create_dir(f"{store.path}/m/{version}")
            with store.fs.open_output_stream(f"{store.path}/m/{version}/{path}") as out:
                out.write(content)
    assert prune(store, keep=2, say=silent) == []
    assert rollback(store, "m", to=1, say=silent) == [2, 4, 5, 6]
    release(store, "m")
    make(tmp_path / "by-hand", 7)
    push(tmp_path / "by-hand", store, say=silent)
    assert [version for _, version in prune(store, keep=2, say=silent)] == []
    assert store.verify("m", 1).version == 1


def test_pruning_stops_at_a_hold_that_cannot_be_read(repository: Path) -> None:
    make(repository, 3)
    store = open_store(str(repository))
    rollback(store, "m", say=silent)
    for version in (4, 5, 6):
        make(repository, version)
    (repository.with_name(repository.name + ".withdrawn") / "m" / "hold.json").write_text("{")
    with pytest.raises(ModelError, match=r"hold.json cannot be read: .*models release"):
        prune(store, keep=2, say=silent)
    assert store.verify("m", 1).version == 1


def test_a_hold_that_cannot_be_read_holds(repository: Path) -> None:
    store = open_store(str(repository))
    rollback(store, "m", say=silent)
    (repository.with_name(repository.name + ".withdrawn") / "m" / "hold.json").write_text("{")
    with pytest.raises(ModelError, match=r"hold.json cannot be read: .*models release"):
        require_folder_released(repository / "m")
    assert release(store, "m")
    require_folder_released(repository / "m")
