"""Closed forms in repositories: their manifests, and their way from one to another."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import PublicKey, Trust
from glaim_stream.form import ClosedForm, fit
from glaim_stream.models import form_manifest
from glaim_stream.models.fetch import fetch
from glaim_stream.models.form_history import keep_form, listed_forms, rollback_form
from glaim_stream.models.form_manifest import (
    FORM_FILES,
    FORM_MANIFEST,
    FORM_SIGNATURE,
    place_form,
    read_sealed_form,
    seal_form,
)
from glaim_stream.models.forms import copy_form
from glaim_stream.models.hold import held, release, require_folder_released
from glaim_stream.models.push import push
from glaim_stream.models.store import Store, open_store
from tests.command_line import call
from tests.models.signing import Signer
from tests.models.test_models import as_object_store, make, silent

REQUIRED = Trust(require_manifest=True)


def made(until_ms: int) -> bytes:
    """A closed form that was fitted to rows up to a time."""
    values = np.random.default_rng(1).normal(size=(1, 2, 60)).cumsum(axis=2)
    seen = np.ones(values.shape, np.bool_)
    form = fit(values, seen, start_ms=0, step_ms=1000, sensors=["a", "b"], steps=8).form
    return dataclasses.replace(form, until_ms=until_ms).to_bytes()


OLD, NEW = made(1000), made(2000)


def test_a_form_and_the_one_before_match_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    place_form(folder, OLD)
    place_form(folder, NEW)
    assert read_sealed_form(folder, REQUIRED) == NEW
    (folder / FORM_FILE).write_bytes(OLD)  # as a reader finds it, between the two files
    assert read_sealed_form(folder, REQUIRED) == OLD
    (folder / FORM_FILE).write_bytes(OLD + b"\0")
    with pytest.raises(ModelError, match=r"gaussian.npz has sha256 \w+, gaussian.manifest.json expects"):
        read_sealed_form(folder, Trust())


def test_a_form_is_replaced_and_copied_in_the_memory_of_a_learning(tmp_path: Path) -> None:
    for name, content in (("m", OLD), ("new", NEW)):
        place_form(tmp_path / "source" / name, content)
    body = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
from glaim_stream.models.fetch import fetch
from glaim_stream.models.form_manifest import place_form
from glaim_stream.models.store import open_store
root = Path(sys.argv[1])
place_form(root / "source" / "m", (root / "source" / "new" / "gaussian.npz").read_bytes())
fetch(open_store(str(root / "source")), root / "target")
"""
    subprocess.run([sys.executable, "-c", body, str(tmp_path)], check=True, timeout=120)
    assert read_sealed_form(tmp_path / "target" / "m", REQUIRED) == NEW


def test_partial_files_of_killed_processes_are_removed_and_those_being_written_stay(tmp_path: Path) -> None:
    old, new = (tmp_path / f".{FORM_FILE}.{name}" for name in ("abcdefgh", "stuvwxyz"))
    for partial in (old, new):
        partial.write_bytes(b"half of a")
    os.utime(old, (0, 0))
    place_form(tmp_path, NEW)
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, FORM_MANIFEST, FORM_FILE]


@pytest.mark.parametrize("at", [FORM_MANIFEST, FORM_FILE])
def test_two_processes_without_a_lock_leave_a_form_that_the_manifest_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    place_form(tmp_path, made(500))
    write, interrupted = form_manifest._write, []

    def interrupting(path: Path, content: bytes) -> None:
        if path.name == at and not interrupted:
            interrupted.append(path)
            place_form(tmp_path, OLD)  # another process, whole, just before this file
        write(path, content)

    monkeypatch.setattr(form_manifest, "_write", interrupting)
    place_form(tmp_path, NEW)
    assert interrupted
    assert read_sealed_form(tmp_path, REQUIRED) == NEW


def test_without_a_manifest_a_form_is_used_unless_one_is_required(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    assert read_sealed_form(folder, REQUIRED) is None
    assert not seal_form(folder)
    folder.mkdir()
    (folder / FORM_FILE).write_bytes(OLD)
    assert read_sealed_form(folder, Trust()) == OLD
    with pytest.raises(ModelError, match=r"there is no gaussian.manifest.json"):
        read_sealed_form(folder, REQUIRED)
    done = call("models", "seal", str(tmp_path), environment={})
    assert done.stdout == "m: the closed form has a manifest\n"
    assert read_sealed_form(folder, REQUIRED) == OLD


def test_the_manifest_of_another_model_does_not_fit(tmp_path: Path) -> None:
    place_form(tmp_path / "m", OLD)
    (tmp_path / "m").rename(tmp_path / "n")
    with pytest.raises(ModelError, match="is that of 'm'"):
        read_sealed_form(tmp_path / "n", Trust())


def test_with_a_key_the_manifest_must_be_signed_and_a_new_form_needs_a_new_signature(tmp_path: Path) -> None:
    folder, signer = tmp_path / "m", Signer()
    trust = Trust(key=PublicKey.parse(signer.public))
    place_form(folder, OLD)
    with pytest.raises(ModelError, match="is not signed"):
        read_sealed_form(folder, trust)
    (folder / FORM_SIGNATURE).write_bytes(signer.sign((folder / FORM_MANIFEST).read_bytes()))
    assert read_sealed_form(folder, trust) == OLD
    place_form(folder, NEW)
    with pytest.raises(ModelError, match="is not signed"):
        read_sealed_form(folder, trust)


@pytest.mark.parametrize("on_disk", [True, False])
def test_the_newer_form_is_pushed_and_fetched_with_its_manifest(tmp_path: Path, on_disk: bool) -> None:
    mine, yours = tmp_path / "mine", tmp_path / "yours"
    store = open_store(str(tmp_path / "theirs")) if on_disk else as_object_store(tmp_path / "theirs")
    place_form(mine / "m", OLD)
    assert push(mine, store, trust=REQUIRED, say=silent) == 1
    assert push(mine, store, trust=REQUIRED, say=silent) == 0
    assert fetch(store, yours, trust=REQUIRED, say=silent) == 1
    assert read_sealed_form(yours / "m", REQUIRED) == OLD
    place_form(yours / "m", NEW)
    assert fetch(store, yours, say=silent) == 0, "an older form replaces none"
    assert push(yours, store, say=silent) == 1
    assert push(mine, store, say=silent) == 0, "an older form replaces none"
    assert fetch(store, mine, missing_only=True, say=silent) == 0
    assert fetch(store, mine, say=silent) == 1
    assert read_sealed_form(mine / "m", REQUIRED) == NEW


def test_a_mirror_follows_to_an_older_form(tmp_path: Path) -> None:
    place_form(tmp_path / "theirs" / "m", OLD)
    place_form(tmp_path / "mine" / "m", NEW)
    assert fetch(open_store(str(tmp_path / "theirs")), tmp_path / "mine", mirror=True, say=silent) == 1
    assert read_sealed_form(tmp_path / "mine" / "m", REQUIRED) == OLD


def test_a_signature_comes_with_its_manifest_and_goes_with_it(tmp_path: Path) -> None:
    mine, store, signer = tmp_path / "mine", as_object_store(tmp_path / "theirs"), Signer()
    trust = Trust(key=PublicKey.parse(signer.public))
    place_form(mine / "m", OLD)
    with pytest.raises(ModelError, match="is not signed"):
        push(mine, store, trust=trust, say=silent)
    (mine / "m" / FORM_SIGNATURE).write_bytes(signer.sign((mine / "m" / FORM_MANIFEST).read_bytes()))
    assert push(mine, store, trust=trust, say=silent) == 1
    assert fetch(store, tmp_path / "yours", trust=trust, say=silent) == 1
    assert read_sealed_form(tmp_path / "yours" / "m", trust) == OLD
    place_form(mine / "m", NEW)
    assert push(mine, store, say=silent) == 1
    assert not store.has(f"m/{FORM_SIGNATURE}")


def test_a_refused_form_is_left_out_of_a_fetch_and_versions_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = tmp_path / "theirs"
    make(theirs, 1)
    (theirs / "m" / FORM_FILE).write_bytes(b"half of a")
    assert fetch(open_store(str(theirs)), tmp_path / "mine", say=silent) == 1
    assert "the closed form of m" in caplog.text
    assert not (tmp_path / "mine" / "m" / FORM_FILE).exists()
    assert (tmp_path / "mine" / "m" / "1" / "model.pt").exists()


def test_the_first_version_of_a_model_with_only_a_form_comes_with_its_configuration(tmp_path: Path) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    place_form(theirs / "m", OLD)
    assert fetch(open_store(str(theirs)), mine, say=silent) == 1
    make(theirs, 1)
    assert fetch(open_store(str(theirs)), mine, say=silent) == 2
    assert (mine / "m" / "config.pbtxt").exists()
    assert read_sealed_form(mine / "m", REQUIRED) == OLD
    assert {path.name for path in (mine / "m").iterdir()} >= {*FORM_FILES} - {FORM_SIGNATURE}


@pytest.fixture(params=["disk", "store"])
def with_three_forms(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A repository whose model m had three forms, one after the other."""
    store = open_store(str(tmp_path / "models")) if request.param == "disk" else as_object_store(tmp_path)
    source = tmp_path / "here"
    for until_ms in (1000, 2000, 3000):
        place_form(source / "m", made(until_ms))
        assert copy_form(open_store(str(source)), store, "m", Trust(), say=silent)
    return store


def states(store: Store, trust: Trust = REQUIRED) -> list[tuple[str, int]]:
    """State and end of the rows of every form; each of them may be used."""
    found = list(listed_forms(store, trust))
    assert not [each.problem for each in found if each.problem]
    return [(each.state, each.found.until_ms) for each in found if each.found is not None]


def test_a_withdrawn_form_gives_way_to_the_one_before_and_stays_withdrawn(
    with_three_forms: Store, tmp_path: Path
) -> None:
    store, lines = with_three_forms, list[str]()
    before = [("in use", 3000), ("kept", 2000), ("kept", 1000)]
    assert states(store) == before
    rollback_form(store, "m", dry_run=True, say=lines.append)
    assert states(store) == before
    assert held(store, "m") is None
    rollback_form(store, "m", say=lines.append)
    assert states(store) == [("in use", 2000), ("kept", 1000), ("withdrawn", 3000)]
    digest = ClosedForm.from_bytes(made(3000), "m").digest[:8]
    assert lines[0] == f"m: closed form {digest} would be withdrawn, to {store.location}.withdrawn/m/forms"
    assert str(held(store, "m")).endswith(f"Z: closed form {digest} rolled back")
    assert push(tmp_path / "here", store, say=lines.append) == 0  # held
    assert release(store, "m")
    assert push(tmp_path / "here", store, say=lines.append) == 0
    assert lines[-1] == f"m: closed form {digest} was withdrawn from {store.location} and is not copied again"
    place_form(tmp_path / "here" / "m", made(4000))
    assert push(tmp_path / "here", store, say=silent) == 1
    assert states(store) == [("in use", 4000), ("kept", 2000), ("kept", 1000), ("withdrawn", 3000)]
    for _ in range(2):
        rollback_form(store, "m", say=silent)
    assert states(store)[0] == ("in use", 1000)
    with pytest.raises(ModelError, match=r"no closed form of m before \w{8} was kept"):
        rollback_form(store, "m", say=silent)


def test_the_first_form_is_withdrawn_put_back_and_followed_by_a_mirror(tmp_path: Path) -> None:
    store, mirror, here = open_store(str(tmp_path / "models")), tmp_path / "mirror", tmp_path / "here"
    place_form(here / "m", made(1000))
    push(here, store, say=silent)
    fetch(store, mirror, mirror=True, say=silent)
    digest, lines = ClosedForm.from_bytes(made(1000), "m").digest[:8], list[str]()
    with pytest.raises(ModelError, match=r"before \w{8} was kept; --to 0 leaves the model without one"):
        rollback_form(store, "m", say=silent)
    rollback_form(store, "m", "0", dry_run=True, say=lines.append)
    assert states(store) == [("in use", 1000)]
    assert lines[-1] == "m: no closed form would be in use"
    rollback_form(store, "m", "0", say=silent)
    assert states(store) == [("withdrawn", 1000)]
    assert fetch(store, mirror, mirror=True, say=silent) == 1
    assert read_sealed_form(mirror / "m", Trust()) is None
    assert push(here, store, say=silent) == 0
    with pytest.raises(ModelError, match="m is held since"):
        require_folder_released(tmp_path / "models" / "m")
    with pytest.raises(ModelError, match="no closed form of m with the name 00000000 was kept"):
        rollback_form(store, "m", "00000000", say=silent)
    rollback_form(store, "m", digest, say=silent)
    assert states(store) == [("in use", 1000)]
    assert digest not in str(held(store, "m"))
    assert fetch(store, mirror, mirror=True, say=silent) == 1
    assert read_sealed_form(mirror / "m", Trust()) == made(1000)


def test_a_mirror_follows_a_form_that_is_withdrawn(with_three_forms: Store, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    fetch(with_three_forms, mirror, mirror=True, say=silent)
    rollback_form(with_three_forms, "m", say=silent)
    assert fetch(with_three_forms, mirror, mirror=True, say=silent) == 1
    assert read_sealed_form(mirror / "m", REQUIRED) == made(2000)
    with pytest.raises(ModelError, match=r"m is held since .*: closed form \w{8} rolled back"):
        require_folder_released(mirror / "m")


def test_the_newest_former_forms_are_kept_and_no_more(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "models"))
    for until_ms in range(1000, 10_000, 1000):
        place_form(tmp_path / "here" / "m", made(until_ms))
        push(tmp_path / "here", store, say=silent)
        keep_form(open_store(str(tmp_path / "here")), "m")
        keep_form(open_store(str(tmp_path / "here")), "m")  # twice, as after an interruption
    assert states(store) == [("in use", 9000), *(("kept", each) for each in (8000, 7000, 6000, 5000, 4000))]
    assert states(open_store(str(tmp_path / "here")))[1:3] == [("kept", 9000), ("kept", 8000)]


def test_a_damaged_former_form_is_passed_over(with_three_forms: Store, tmp_path: Path) -> None:
    kept = next(path for path in tmp_path.rglob("forms/2/gaussian.npz"))
    kept.write_bytes(kept.read_bytes()[:100])
    rollback_form(with_three_forms, "m", say=silent)
    assert states(with_three_forms) == [("in use", 1000), ("withdrawn", 3000)]


def test_a_former_form_without_the_signature_that_is_demanded_is_not_restored(
    with_three_forms: Store, tmp_path: Path
) -> None:
    trust = Trust(key=PublicKey.parse(Signer().public))
    with pytest.raises(ModelError, match=r"no closed form of m before .* is not signed"):
        rollback_form(with_three_forms, "m", trust=trust, say=silent)
    assert states(with_three_forms)[0] == ("in use", 3000)


def test_forms_are_listed_and_rolled_back_by_command(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "models"))
    for until_ms in (1000, 2000):
        place_form(tmp_path / "here" / "m", made(until_ms))
        push(tmp_path / "here", store, say=silent)
    place = str(tmp_path / "models")
    environment = {"COLUMNS": "200"}
    assert "1970-01-01T00:00:02Z" in call("models", "list", place, environment=environment).stdout
    unknown = call("models", "rollback", place, "m", "--form", "--to", "1", environment={})
    assert (unknown.returncode, "no closed form of m with the name 1 was kept" in unknown.stderr) == (2, True)
    named = call("models", "rollback", place, "m", "--to", "0a1b2c3d", environment={})
    assert (named.returncode, "expected the number of a version after --to" in named.stderr) == (2, True)
    assert "closed form" in call("models", "rollback", place, "m", "--form", environment={}).stdout
    shown = call("models", "list", place, environment=environment)
    assert shown.returncode == 0
    assert "withdrawn" in shown.stdout
    assert "m is held since" in shown.stdout
