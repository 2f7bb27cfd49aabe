"""A release is refused where a tag would be used twice, and its commands sign and attest everything that they push.

The registry, crane and helm are real. No container engine runs here, so a script takes the place of `docker buildx`: it
pushes an image with one file. A second one takes the place of cosign and writes down how it was called.
"""

import json
import os
import re
import shlex
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deploy import release as module
from deploy.bases import Base, DigestUnknown, TagUnknown, ask_registry, pin, read_bases
from deploy.cache import CHECKOUT
from deploy.crane import find_crane
from deploy.gotools import GoUnavailable
from deploy.helm import HelmUnavailable, find_helm
from deploy.ports import LOOPBACK, choose_port
from deploy.release import (
    IMAGES,
    Release,
    ReleaseFailed,
    ReleaseRefused,
    Signing,
    main,
    refusals,
    run,
    steps,
    version_of_checkout,
)

DIGEST = "sha256:" + "0f" * 32
DOCKER = """#!/bin/bash
set -eu
[ "$1 $2" = "buildx build" ]
echo "docker $*" >> "$CALLS"
while [ "$#" -gt 0 ]; do
    case $1 in --tag) tag=$2 ;; --metadata-file) metadata=$2 ;; esac
    shift
done
folder=$(mktemp -d)
echo "$tag" > "$folder/file"
tar -C "$folder" -cf "$folder.tar" file
pushed=$(crane append --new_layer "$folder.tar" --new_tag "$tag" 2> /dev/null)
echo "{\\"containerimage.digest\\": \\"${pushed#*@}\\"}" > "$metadata"
"""
COSIGN = '#!/bin/bash\necho "cosign $*" >> "$CALLS"\n'


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with real crane and helm, and the two scripts."""
    folder = tmp_path_factory.mktemp("programs")
    try:
        (folder / "crane").symlink_to(find_crane())
        (folder / "helm").symlink_to(find_helm())
    except (GoUnavailable, HelmUnavailable) as error:
        pytest.skip(str(error))
    for name, text in (("docker", DOCKER), ("cosign", COSIGN)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def calls(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the scripts write down their calls; the programs are on PATH."""
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


@pytest.fixture
def registry(calls: Path) -> Iterator[str]:
    port = choose_port()
    address = f"{LOOPBACK}:{port}"
    with subprocess.Popen(
        ["crane", "registry", "serve", "--address", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            for _ in range(200):
                try:
                    ask_registry(f"{address}/nothing:1")
                except TagUnknown:
                    break
                except DigestUnknown:
                    continue
            yield address
        finally:
            process.kill()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with a remote, because a release adds a git tag and pushes it."""
    remote, clone = tmp_path / "remote.git", tmp_path / "clone"
    for command in (
        ["git", "init", "--quiet", "--bare", str(remote)],
        ["git", "init", "--quiet", str(clone)],
        ["git", "-C", str(clone), "remote", "add", "origin", str(remote)],
    ):
        subprocess.run(command, check=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (CHECKOUT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((CHECKOUT / name).read_bytes())
    log = clone / "CHANGELOG.md"
    log.write_text(re.sub(r"(?s)(?<=## Unreleased\n).*?(?=## )", "\n", log.read_text(), count=1))
    git = ["git", "-C", str(clone), "-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "All"], check=True)
    for name in ("user.name", "user.email"):
        subprocess.run([*git[:3], "config", name, "test@example.com"], check=True)
    monkeypatch.setattr(module, "CHECKOUT", clone)
    monkeypatch.setattr(module, "CHART", clone / "helm" / "glaim-stream")
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    return clone


def planned(registry: str) -> Release:
    bases = {name: Base(name, base.repository, base.tag, DIGEST) for name, base in read_bases().items()}
    signing = Signing(key="cosign.key", public_key="cosign.pub")
    return Release(version_of_checkout(), "c" * 40, "1763900000", registry, bases, signing, plain_http=True)


def test_chart_images_and_compose_have_one_version() -> None:
    version = version_of_checkout()
    chart = yaml.safe_load((module.CHART / "Chart.yaml").read_text())
    listed = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert {each["image"] for each in listed} == {f"glaim-stream/{name}:{version}" for name in IMAGES}
    compose = (CHECKOUT / "deploy" / "compose.yaml").read_text()
    assert set(re.findall(r"image: glaim-stream/\w+:(\S+)", compose)) == {version}
    values = yaml.safe_load((module.CHART / "values.yaml").read_text())
    for name in IMAGES:
        assert values[name]["image"] == {
            "repository": f"glaim-stream/{name}", "tag": "", "digest": "", "pullPolicy": "IfNotPresent",
        }  # fmt: skip


@pytest.mark.parametrize("name", ["version", "appVersion"])
def test_versions_that_differ_are_refused(checkout: Path, name: str) -> None:
    file = checkout / "helm" / "glaim-stream" / "Chart.yaml"
    file.write_text(re.sub(rf"^{name}: .*$", f"{name}: 99.0.0", file.read_text(), flags=re.MULTILINE))
    with pytest.raises(ReleaseRefused, match=rf"expected {name} .* found 99\.0\.0"):
        version_of_checkout()


def test_a_version_without_its_section_in_the_change_log_is_refused(checkout: Path) -> None:
    log, version = checkout / "CHANGELOG.md", version_of_checkout()
    log.write_text(log.read_text().replace(f"## {version}", "## 99.0.0"))
    with pytest.raises(ReleaseRefused, match=rf"expected a section `## {version}` in CHANGELOG\.md"):
        version_of_checkout()


def test_a_version_that_is_not_semantic_is_refused(checkout: Path) -> None:
    project, version = checkout / "pyproject.toml", version_of_checkout()
    project.write_text(project.read_text().replace(f'version = "{version}"', 'version = "2026.11"'))
    with pytest.raises(ReleaseRefused, match=r"expected a semantic version such as 1\.2\.3 .* found 2026\.11"):
        version_of_checkout()


def test_changes_without_a_version_are_refused(registry: str, checkout: Path) -> None:
    log = checkout / "CHANGELOG.md"
    log.write_text(log.read_text().replace("## Unreleased\n", "## Unreleased\n\n### Fixed\n- A fault.\n"))
    (reason,) = (reason for reason in refusals(planned(registry)) if "Unreleased" in reason)
    assert reason.endswith("in CHANGELOG.md, found 2 lines under Unreleased")


def test_a_rehearsal_packages_the_chart_and_publishes_nothing(
    calls: Path, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version, dist = version_of_checkout(), checkout / "dist"
    dist.mkdir()
    assert main(["--rehearse"]) == 1
    assert f"expected dist/glaim_stream-{version}*.whl, found none" in capsys.readouterr().out
    for name in (f"glaim_stream-{version}-py3-none-any.whl", f"glaim_stream-{version}.tar.gz", "sbom-chart.cdx.json"):
        (dist / name).write_text(name)
    assert main(["--rehearse"]) == 0
    printed = capsys.readouterr().out
    with tarfile.open(dist / f"glaim-stream-{version}.tgz") as chart:
        assert "glaim-stream/Chart.yaml" in chart.getnames()
    assert f"built dist/glaim-stream-{version}.tgz, sha256:" in printed
    assert f"would publish git tag v{version}" in printed
    assert f"would publish REGISTRY/charts/glaim-stream:{version}" in printed
    assert printed.endswith("published nothing\n")
    assert not calls.exists()
    assert not subprocess.run(["git", "tag"], cwd=checkout, capture_output=True, text=True, check=True).stdout


def test_every_pushed_name_is_signed_attested_and_verified_by_digest() -> None:
    release = planned("registry.example/team")
    commands = [step.command for step in steps(release)]
    subjects = [*(f"{release.image(name)}@{{{name}}}" for name in IMAGES), f"{release.chart}@{{chart}}"]
    for subject in subjects:
        assert [command[1] for command in commands if command[0] == "cosign" and command[-1] == subject][:4] == [
            "sign", "attest", "verify", "verify-attestation",
        ]  # fmt: skip
    for command in commands:
        if command[0] == "cosign":
            assert command[-1] in subjects, "a tag can move between push and signature"
    provenance = [command for command in commands if "slsaprovenance1" in command]
    assert [command[-1] for command in provenance] == [subjects[-1]]
    builds = [command for command in commands if command[:3] == ["docker", "buildx", "build"]]
    assert len(builds) == len(IMAGES)
    for command in builds:
        assert f"{read_bases()['PYTHON_IMAGE'].tagged}@{DIGEST}" in " ".join(command) or "triton" in command[4]
        assert command[command.index("--provenance") + 1] == "mode=max"


def test_dry_run_prints_every_command_and_runs_none(
    calls: Path, registry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--registry", registry, "--dry-run", "--key", "cosign.key", "--public-key", "cosign.pub"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out.splitlines()
    commands = [shlex.split(line) for line in printed if not line.startswith("#")]
    assert [command[0] for command in commands][2:] == [step.command[0] for step in steps(planned(registry))][2:]
    assert not calls.exists()
    with pytest.raises(TagUnknown):
        ask_registry(f"{registry}/charts/glaim-stream:{version_of_checkout()}")


def pushed(tag: str, text: str, folder: Path) -> str:
    """Push an image with one file under a tag, and return its digest."""
    (folder / "file").write_text(text)
    with tarfile.open(folder / "layer.tar", "w") as layer:
        layer.add(folder / "file", arcname="file")
    command = ["crane", "append", "--new_layer", folder / "layer.tar", "--new_tag", tag]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout.strip().rpartition("@")[2]


def test_pinning_asks_the_registry_and_follows_a_tag_that_moves(registry: str, tmp_path: Path) -> None:
    """`python -m deploy.bases --pin` against a real registry."""
    file = tmp_path / ".env"
    file.write_text(f"# a comment\nPYTHON_IMAGE={registry}/python:3.11\nTRITON_IMAGE={registry}/triton:26.11-py3\n")
    first = {name: pushed(f"{registry}/{name}", name, tmp_path) for name in ("python:3.11", "triton:26.11-py3")}
    assert [base.digest for base in pin(file).values()] == list(first.values())
    moved = pushed(f"{registry}/python:3.11", "a later build", tmp_path)
    assert moved != first["python:3.11"]
    assert [base.digest for base in pin(file).values()] == [moved, first["triton:26.11-py3"]]
    before = file.read_text() + f"OTHER_IMAGE={registry}/other:1.0\n"
    file.write_text(before)
    with pytest.raises(TagUnknown, match=r"other:1\.0"):
        pin(file)
    assert file.read_text() == before


def test_without_a_way_to_sign_nothing_begins(capsys: pytest.CaptureFixture[str]) -> None:
    keyless = ["--identity", "a@example.com", "--issuer", "https://login.example.com"]
    for arguments in ([], ["--key", "cosign.key"], keyless[:2], [*keyless, "--no-public-log"]):
        with pytest.raises(SystemExit, match="2"):
            main(["--registry", "registry.example", "--dry-run", *arguments])
    told = capsys.readouterr().err
    assert told.count("expected --key with --public-key, or --identity with --issuer") == 3
    assert told.count("expected --no-public-log with --key") == 1


def test_signatures_of_a_private_key_may_stay_out_of_the_public_log() -> None:
    private = Signing(key="cosign.key", public_key="cosign.pub", public_log=False)
    commands = [step.command for step in steps(replace(planned("registry.example"), signing=private))]
    for command in commands:
        if command[0] == "cosign":
            option = "--tlog-upload=false" if command[1] in ("sign", "attest") else "--insecure-ignore-tlog"
            assert option in command


@pytest.mark.slow  # quicker: the steps of a release, above, and what it refuses, below
def test_a_release_publishes_everything_once(calls: Path, registry: str, checkout: Path) -> None:
    release = planned(registry)
    run(release)
    digests = {tag: ask_registry(tag) for tag in release.tags()}
    assert len(digests) == len(IMAGES) + 1
    signed = set(re.findall(r"cosign sign .* (\S+)", calls.read_text()))
    assert signed == {f"{tag.rpartition(':')[0]}@{digest}" for tag, digest in digests.items()}
    out = checkout / "dist" / "release"
    for name in (*IMAGES, "chart"):
        assert json.loads((out / f"sbom-{name}.cdx.json").read_text())["bomFormat"] == "CycloneDX"
    values = yaml.safe_load((out / "values-digests.yaml").read_text())
    assert values["image"] == {"registry": registry}
    assert {name: values[name]["image"]["digest"] for name in IMAGES} == {
        name: digests[f"{release.image(name)}:{release.version}"] for name in IMAGES
    }
    rendered = subprocess.run(
        ["helm", "template", "plant", f"oci://{release.chart}", "--version", release.version, "--plain-http",
         "--kube-version", "1.33.0",
         "--values", str(out / "values-digests.yaml"), "--set", "kafka.bootstrapServers=kafka:9092"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert rendered.returncode == 0, rendered.stderr
    assert f"{release.image('worker')}@sha256:" in rendered.stdout
    tags = subprocess.run(
        ["git", "--git-dir", str(checkout.parent / "remote.git"), "tag"], capture_output=True, text=True, check=True
    )
    assert tags.stdout.split() == [f"v{release.version}"]

    with pytest.raises(ReleaseRefused) as refused:
        run(release)
    for tag in release.tags():
        assert f"expected a new tag, found {tag} in the registry as {digests[tag]}" in str(refused.value)
    assert f"expected a new version, found the git tag v{release.version}" in str(refused.value)
    assert {tag: ask_registry(tag) for tag in release.tags()} == digests


def test_changes_other_models_and_tags_without_digest_are_refused(registry: str, checkout: Path) -> None:
    release = planned(registry)
    assert not list(refusals(release))
    (checkout / "README.md").write_text("changed")
    (checkout / "model_repo" / "pumps").mkdir()
    (checkout / "model_repo" / "pumps" / "model.pt").write_text("somebody's own")
    unpinned = replace(release, bases={name: replace(base, digest=None) for name, base in release.bases.items()})
    reasons = "\n".join(refusals(unpinned))
    assert "expected a tree without changes, found 1, the first is M README.md" in reasons
    assert "expected only the shipped models in model_repo, found 1 other files" in reasons
    assert "expected PYTHON_IMAGE of deploy/.env with a digest" in reasons
    assert "expected TRITON_IMAGE of deploy/.env with a digest" in reasons


def test_a_registry_that_does_not_answer_is_no_new_tag(calls: Path, checkout: Path) -> None:
    """Otherwise a release could overwrite what it did not see."""
    reasons = list(refusals(planned(f"{LOOPBACK}:{choose_port()}")))
    assert len(reasons) == len(IMAGES) + 1
    assert all("expected the digest of" in reason for reason in reasons)


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, checkout: Path) -> None:
    monkeypatch.setattr(module.shutil, "which", lambda name: None if name in ("helm", "cosign") else f"/bin/{name}")
    monkeypatch.setattr(module, "ask_registry", lambda tag: DIGEST)
    assert "found no helm, cosign" in "\n".join(refusals(planned("registry.example")))


def test_a_command_that_fails_ends_the_release(registry: str, checkout: Path, programs: Path, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    failing = tmp_path / "failing"
    failing.mkdir()
    (failing / "cosign").write_text("#!/bin/sh\nexit 3\n")
    (failing / "cosign").chmod(0o755)
    monkeypatch.setenv("PATH", f"{failing}{os.pathsep}{os.environ['PATH']}")
    every = list(steps(planned(registry)))
    monkeypatch.setattr(module, "steps", lambda release: every[2:])  # SBOMs and notices take long
    with pytest.raises(ReleaseFailed, match=r"cosign sign .* ended with status 3"):
        run(planned(registry))
    with pytest.raises(TagUnknown):
        ask_registry(planned(registry).tags()[-1])
