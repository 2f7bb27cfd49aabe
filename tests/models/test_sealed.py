"""A version with a manifest is used as it was made, or refused with one sentence before anything of it is loaded."""

import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glaim_stream.commands.main import app
from glaim_stream.core.contract import FORM_FILE, file_digest, read_contract, write_contract
from glaim_stream.core.errors import ContractError, ModelError
from glaim_stream.core.trust import PublicKey, Trust
from glaim_stream.models import folders, local
from glaim_stream.models.fetch import fetch
from glaim_stream.models.folders import DiskFolder
from glaim_stream.models.listing import listing
from glaim_stream.models.manifest import manifest_of, read_manifest
from glaim_stream.models.push import push
from glaim_stream.models.rollback import rollback
from glaim_stream.models.sealed import open_sealed, read_sealed_contract, seal
from glaim_stream.models.served import Contracts
from glaim_stream.models.store import open_store
from tests.models.signing import Signer
from tests.models.test_models import as_object_store, make, silent, tree
from tests.support import torchscript

REQUIRED = Trust(require_manifest=True)
VERSION = "m/2"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two versions of m and one of n, all with a manifest."""
    path = tmp_path / "repository"
    for name, version in (("m", 1), ("m", 2), ("n", 1)):
        make(path, version, name=name)
        (path / name / str(version) / "model.py").write_text("code = 1\n")
        (path / name / "configs").mkdir(exist_ok=True)
        (path / name / "configs" / "python.pbtxt").write_text("config")
        seal(path / name, version)
    return path


def test_a_closed_form_belongs_to_no_version(repository: Path) -> None:
    for name in (FORM_FILE, f".{FORM_FILE}.partial"):
        (repository / "m" / name).write_bytes(b"fitted after the version was sealed")
    assert open_sealed(DiskFolder(repository / "m"), "m", 2, REQUIRED, "here") is not None


@pytest.mark.parametrize(("trust", "copied"), [(Trust(), True), (REQUIRED, False)])
def test_a_closed_form_comes_with_a_new_model_unless_a_manifest_is_required(
    repository: Path, tmp_path: Path, trust: Trust, copied: bool
) -> None:
    (repository / "m" / FORM_FILE).write_bytes(b"form")
    target = tmp_path / "target"
    fetch(open_store(str(repository)), target, models=["m"], trust=trust, say=silent)
    assert (target / "m" / FORM_FILE).is_file() == copied
    (repository / "m" / FORM_FILE).write_bytes(b"other")
    fetch(open_store(str(repository)), target, models=["m"], trust=trust, say=silent)
    assert not copied or (target / "m" / FORM_FILE).read_bytes() == b"form"


def add_code(repository: Path) -> None:
    (repository / VERSION / "other.py").write_text("code = 2\n")


def add_code_of_all_versions(repository: Path) -> None:
    (repository / "m" / "model.py").write_text("code = 2\n")


def add_hidden_file(repository: Path) -> None:
    (repository / VERSION / ".model.py").write_text("code = 2\n")


def change_code(repository: Path) -> None:
    (repository / VERSION / "model.py").write_text("code = 2\n")


def change_configuration(repository: Path) -> None:
    (repository / "m" / "config.pbtxt").write_text('default_model_filename: "../../evil.pt"')


def change_contract(repository: Path) -> None:
    contract = read_contract(repository / VERSION)
    write_contract(contract.model_copy(update={"git_commit": "other"}), repository / VERSION)


def lose_code(repository: Path) -> None:
    (repository / VERSION / "model.py").unlink()


def grow_code(repository: Path) -> None:
    with (repository / VERSION / "model.py").open("ab") as file:
        file.write(b"#" * 100)


def link_code(repository: Path) -> None:
    """The content is the right one now, and another one whenever the other file changes."""
    outside = repository.parent / "outside.py"
    (repository / VERSION / "model.py").rename(outside)
    (repository / VERSION / "model.py").symlink_to(outside)


def link_folder(repository: Path) -> None:
    outside = repository.parent / "outside"
    (repository / VERSION).rename(outside)
    (repository / VERSION).symlink_to(outside)


def link_configurations(repository: Path) -> None:
    outside = repository.parent / "configs"
    (repository / "m" / "configs").rename(outside)
    (repository / "m" / "configs").symlink_to(outside)


def put_a_pipe(repository: Path) -> None:
    (repository / VERSION / "model.py").unlink()
    os.mkfifo(repository / VERSION / "model.py")


def take_the_manifest_of_another_model(repository: Path) -> None:
    shutil.copy(repository / "n" / "1" / "manifest.json", repository / VERSION / "manifest.json")


def take_another_model_whole(repository: Path) -> None:
    shutil.rmtree(repository / VERSION)
    shutil.copytree(repository / "n" / "1", repository / VERSION)


def take_an_older_version_whole(repository: Path) -> None:
    shutil.rmtree(repository / VERSION)
    shutil.copytree(repository / "m" / "1", repository / VERSION)


def change_manifest(repository: Path, change: Callable[[dict[str, object]], object]) -> None:
    path = repository / VERSION / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def listed_path(path: str) -> Callable[[Path], None]:
    def change(repository: Path) -> None:
        entry = {"path": path, "sha256": "0" * 64, "size_bytes": 1}
        change_manifest(repository, lambda content: content["files"].append(entry))  # type: ignore[attr-defined]

    return change


def list_twice(repository: Path) -> None:
    change_manifest(repository, lambda content: content["files"].append(content["files"][0]))  # type: ignore[attr-defined,index]


def leave_out_the_weights(repository: Path) -> None:
    change_manifest(repository, lambda content: content["files"].pop(1))  # type: ignore[attr-defined]


def write_no_manifest(repository: Path) -> None:
    (repository / VERSION / "manifest.json").write_text("{}")


def write_a_huge_manifest(repository: Path) -> None:
    (repository / VERSION / "manifest.json").write_text(" " * 2_000_000)


def use_another_operator(repository: Path) -> None:
    """Whoever may seal may be deceived too: the operators are checked beside the manifest."""
    weights = repository / VERSION / "model.pt"
    weights.write_bytes(torchscript("    torch.save(VALUES, '/tmp/stolen')\n    return VALUES\n"))
    contract = read_contract(repository / VERSION)
    write_contract(contract.model_copy(update={"torchscript_sha256": file_digest(weights)}), repository / VERSION)
    seal(repository / "m", 2)


ATTACKS: list[tuple[Callable[[Path], None], str]] = [
    (add_code, "its manifest does not list '2/other.py'"),
    (add_code_of_all_versions, "its manifest does not list 'model.py'"),
    (add_hidden_file, "its manifest does not list '2/.model.py'"),
    (change_code, "2/model.py has sha256 .*, its manifest expects"),
    (change_configuration, "'config.pbtxt' has more than the 6 bytes that are expected"),
    (change_contract, "2/contract.json has sha256 .*, its manifest expects|'2/contract.json' has more than"),
    (lose_code, "its manifest lists '2/model.py', which is missing"),
    (grow_code, "'2/model.py' has more than the 9 bytes that are expected"),
    (link_code, "'2/model.py' is a link or a device"),
    (link_folder, "'2' is a link|is a link, or cannot be read"),
    (link_configurations, "'configs' is a link or a device"),
    (put_a_pipe, "'2/model.py' is a link or a device"),
    (take_the_manifest_of_another_model, "its manifest is that of 'n' version 1"),
    (take_another_model_whole, "its manifest is that of 'n' version 1"),
    (take_an_older_version_whole, "its manifest is that of 'm' version 1"),
    (listed_path("../n/1/model.py"), "its manifest cannot be used: files.*path: .*'../n/1/model.py'"),
    (listed_path("2/../../n/1/model.py"), "its manifest cannot be used: files.*path"),
    (listed_path("/etc/passwd"), "its manifest cannot be used: files.*path"),
    (listed_path("2/model.py\nx"), r"its manifest cannot be used: files.*path.*'2/model.py\\nx'"),
    (listed_path("2/model.pt\n"), "its manifest cannot be used: files.*path"),
    (listed_path("2//x"), "its manifest cannot be used: files.*path"),
    (list_twice, "its manifest cannot be used: .*a path is listed twice"),
    (leave_out_the_weights, "its manifest cannot be used: .*2/model.pt is not listed"),
    (write_no_manifest, "its manifest cannot be used: model: expected a value, found none"),
    (write_a_huge_manifest, "its manifest has more than 1000000 bytes"),
    (use_another_operator, "the weights are not loaded: they use aten::save"),
]


@pytest.mark.parametrize(("attack", "reason"), ATTACKS)
def test_a_version_that_differs_from_its_manifest_is_refused(
    attack: Callable[[Path], None], reason: str, repository: Path, tmp_path: Path
) -> None:
    attack(repository)
    with pytest.raises(ModelError, match=reason) as refused:
        open_sealed(DiskFolder(repository / "m"), "m", 2, Trust(), "here")
    assert str(refused.value).startswith("here: m version 2 is refused: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("attack", [add_code, change_code, link_code, take_another_model_whole])
def test_nothing_of_it_is_fetched_pushed_or_rolled_back_to(
    attack: Callable[[Path], None], present: bool, repository: Path, tmp_path: Path
) -> None:
    """The other version is whole and can be used."""
    here, cloud = tmp_path / "here", as_object_store(tmp_path / "cloud")
    if present:
        make(here, 1)  # the same weights, without a manifest
        shutil.copytree(repository / "m" / "configs", here / "m" / "configs")
    attack(repository)
    before = tree(here)
    with pytest.raises(ModelError):
        fetch(open_store(str(repository)), here, models=["m"], say=silent)
    assert tree(here) == before
    with pytest.raises(ModelError):
        push(repository, cloud, models=["m"], say=silent)
    assert cloud.versions("m") == [1]
    assert [each.version for each in listing(open_store(str(repository))) if each.problem] == [2]
    make(repository, 3)
    with pytest.raises(ModelError):
        rollback(open_store(str(repository)), "m", 2, say=silent)
    assert (repository / "m" / "3").exists()


def test_whole_versions_are_fetched_and_pushed_with_manifests_and_signatures(repository: Path, tmp_path: Path) -> None:
    signer = Signer()
    trust = Trust(key=PublicKey.parse(signer.public))
    for folder in (repository / "m" / "1", repository / "m" / "2", repository / "n" / "1"):
        (folder / "manifest.json.minisig").write_bytes(signer.sign((folder / "manifest.json").read_bytes()))
    cloud, here = as_object_store(tmp_path / "cloud"), tmp_path / "here"
    assert push(repository, cloud, trust=trust, say=silent) == 3
    assert fetch(cloud, here, trust=trust, say=silent) == 2
    assert tree(here) == tree(repository)
    assert {each.manifest for each in listing(open_store(str(here)), trust)} == {"signed"}
    assert {each.manifest for each in listing(open_store(str(here)))} == {"matches"}
    make(repository, 3)
    seal(repository / "m", 3)
    content = (repository / "m" / "3" / "manifest.json").read_bytes()
    (repository / "m" / "3" / "manifest.json.minisig").write_bytes(signer.sign(content))
    assert push(repository, cloud, trust=trust, say=silent) == 1
    (here / "m" / "configs" / "python.pbtxt").unlink()
    with pytest.raises(ModelError, match=r"manifest lists 'configs/python\.pbtxt', which is missing"):
        fetch(cloud, here, trust=trust, say=silent)
    shutil.copy(repository / "m" / "configs" / "python.pbtxt", here / "m" / "configs")
    assert fetch(cloud, here, trust=trust, say=silent) == 1
    assert rollback(cloud, "m", trust=trust, say=silent) == [3]


@pytest.mark.parametrize("how", ["unsigned", "another key", "another manifest", "sealed again"])
def test_only_what_the_key_has_signed_is_used(how: str, repository: Path) -> None:
    signer, folder = Signer(), repository / VERSION
    content = (folder / "manifest.json").read_bytes()
    trust = Trust(key=PublicKey.parse(signer.public))
    if how != "unsigned":
        by = Signer() if how == "another key" else signer
        (folder / "manifest.json.minisig").write_bytes(by.sign(content))
    if how == "another manifest":
        (folder / "manifest.json").write_bytes(content + b" ")
    if how == "sealed again":  # by somebody who may write files and has no key
        (folder / "model.py").write_text("code = 2\n")
        seal(repository / "m", 2)
    reason = "expected the content" if how.startswith("another") else "its manifest is not signed"
    with pytest.raises(ModelError, match=f"m version 2 is refused: .*{reason}"):
        open_sealed(DiskFolder(repository / "m"), "m", 2, trust, "here")


@pytest.mark.parametrize("trust", [REQUIRED, Trust(key=PublicKey.parse(Signer().public))])
def test_versions_from_before_are_used_with_a_warning_unless_manifests_are_required(
    trust: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, here = tmp_path / "old", tmp_path / "here"
    make(old, 1)
    with caplog.at_level(logging.WARNING, "glaim_stream.models.sealed"):
        assert fetch(open_store(str(old)), here, say=silent) == 1
    assert [line.message.partition(",")[0] for line in caplog.records] == ["m version 1 has no manifest"]
    with pytest.raises(ModelError, match="m version 1 is refused, and so are the others: it has no manifest"):
        fetch(open_store(str(old)), tmp_path / "there", trust=trust, say=silent)
    for refused in (
        lambda: push(old, as_object_store(tmp_path / "cloud"), trust=trust, say=silent),
        lambda: open_sealed(DiskFolder(old / "m"), "m", 1, trust, "here"),
    ):
        with pytest.raises(ModelError, match="m version 1 is refused: it has no manifest"):
            refused()
    assert not (tmp_path / "there" / "m").exists()
    (problem,) = [each.problem for each in listing(open_store(str(old)), trust)]
    assert "it has no manifest" in problem


def test_a_version_that_waits_for_its_signature_is_left_out(
    repository: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """New pods start with the versions that are signed, as if the new one were not there yet."""
    signer, here = Signer(), tmp_path / "here"
    trust = Trust(key=PublicKey.parse(signer.public))
    first = repository / "m" / "1"
    (first / "manifest.json.minisig").write_bytes(signer.sign((first / "manifest.json").read_bytes()))
    assert fetch(open_store(str(repository)), here, models=["m"], trust=trust, say=silent) == 1
    assert caplog.messages == [f"m version 2 in {repository} is left out: it has no signature"]
    assert (local.version_numbers(here / "m"), read_contract(here / "m").version) == ([1], 1)
    second = repository / VERSION
    (second / "manifest.json.minisig").write_bytes(signer.sign((second / "manifest.json").read_bytes()))
    assert fetch(open_store(str(repository)), here, models=["m"], trust=trust, say=silent) == 1
    assert read_contract(here / "m").version == 2


def test_without_a_manifest_operators_are_checked_too(tmp_path: Path) -> None:
    made = make(tmp_path / "old", 1)
    weights = tmp_path / "old" / "m" / "1" / "model.pt"
    weights.write_bytes(torchscript("    torch.save(VALUES, 'x')\n    return VALUES\n"))
    for folder in (weights.parent, weights.parent.parent):
        write_contract(made.model_copy(update={"torchscript_sha256": file_digest(weights)}), folder)
    store = open_store(str(tmp_path / "old"))
    for refused in (
        lambda: fetch(store, tmp_path / "here", say=silent),
        lambda: push(tmp_path / "old", as_object_store(tmp_path / "cloud"), say=silent),
    ):
        with pytest.raises(ModelError, match="m version 1 is refused: the weights are not loaded: they use aten::save"):
            refused()
    assert [each.problem for each in listing(store)] != [""]


def test_a_file_that_is_swapped_after_its_check_is_not_what_is_fetched(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is read once: whoever writes another one between two reads finds no second read."""
    expected = tree(repository / "n")
    read, reads = folders.DiskFolder.read, []

    def read_and_swap(folder: DiskFolder, path: str, limit: int) -> bytes | None:
        content = read(folder, path, limit)
        target = repository / "n" / path
        if content is not None and repository / "n" == folder._root:
            reads.append(path)
            target.write_bytes(b"swapped")
        return content

    monkeypatch.setattr(folders.DiskFolder, "read", read_and_swap)
    fetch(open_store(str(repository)), tmp_path / "here", models=["n"], say=silent)
    monkeypatch.undo()
    assert tree(tmp_path / "here" / "n") == expected
    assert sorted(reads) == sorted({*expected} - {"contract.json"})


@pytest.mark.parametrize("version", ["", "2"])
def test_a_contract_alone_is_checked_where_weights_are_not_read(version: str, repository: Path) -> None:
    contract = read_sealed_contract(repository / "m", version, REQUIRED)
    assert contract == read_contract(repository / VERSION)
    write_contract(contract.model_copy(update={"step_s": 7.0}), repository / "m" / version)
    with pytest.raises(ContractError, match=r"the contract of m version 2 is refused: 2/contract\.json has sha256"):
        read_sealed_contract(repository / "m", version, Trust())


async def test_a_worker_does_not_use_the_intervals_of_a_changed_contract(
    repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    contracts = Contracts({"m": read_contract(repository / "m" / "1")}, repository)
    change_contract(repository)
    await contracts.follow("m", "2")
    assert contracts.of("m", "2") is None
    assert "the contract of m version 2 is refused: 2/contract.json has sha256" in caplog.text


@pytest.mark.parametrize("path", ["../x", "a/../x", "/x", "x\n", "x\\y", "", ".x", "a/", "a\0"])
def test_a_name_that_could_leave_the_folder_gets_no_manifest(path: str) -> None:
    contents = {"1/model.pt": b"", "1/contract.json": b"", path: b""}
    with pytest.raises(ModelError, match="m version 1 cannot have a manifest: files"):
        manifest_of("m", 1, contents)
    assert read_manifest(manifest_of("m", 1, {"1/model.pt": b"", "1/contract.json": b""}).to_bytes(), "m", 1)


def test_the_command_seals_lists_and_refuses(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()
    change_configuration(repository)
    listed = runner.invoke(app, ["models", "list", str(repository)])
    assert listed.exit_code == 1
    sealed = runner.invoke(app, ["models", "seal", str(repository), "--model", "m"])
    assert sealed.output.splitlines() == [
        "m: the manifest of version 1 lists 6 files", "m: the manifest of version 2 lists 6 files",
    ]  # fmt: skip
    signer = Signer()
    monkeypatch.setenv("GLAIM_MANIFEST_KEY", signer.public)
    for file in repository.glob("*/*/manifest.json"):
        file.with_name("manifest.json.minisig").write_bytes(signer.sign(file.read_bytes()))
    listed = runner.invoke(app, ["models", "list", str(repository)])
    assert listed.exit_code == 0, listed.output
    (repository / "m" / "1" / "manifest.json").unlink()
    assert runner.invoke(app, ["models", "list", str(repository)]).exit_code == 1
    assert runner.invoke(app, ["models", "seal", str(repository), "--model", "x"]).exit_code != 0
