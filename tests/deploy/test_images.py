"""What can be known about the images without an engine: linters, our own rules, and what a build would see and copy."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from tests.deploy.build_steps import Step, copied, steps

IMAGES = CHECKOUT / "deploy" / "images"
CONTAINERFILES = sorted(IMAGES.glob("*/Containerfile"))
SCRIPTS = [IMAGES / "build.sh", IMAGES / "smoke.sh", IMAGES / "triton" / "serve"]
USERS = {"worker": "10001:10001", "training": "10001:10001", "triton": "1000:1000"}

each_image = pytest.mark.parametrize("containerfile", CONTAINERFILES, ids=lambda path: path.parent.name)


def tool(name: str) -> Path:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} for this platform")
    return Path(found)


def of(containerfile: Path, instruction: str) -> list[str]:
    return [step.value for step in steps(containerfile) if step.instruction == instruction]


def test_every_image_is_looked_at() -> None:
    assert {path.parent.name for path in CONTAINERFILES} == set(USERS)


@each_image
def test_hadolint_has_nothing_to_say(containerfile: Path) -> None:
    run = subprocess.run([tool("hadolint"), containerfile], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    run = subprocess.run([tool("shellcheck"), script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert script.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", script], check=True)


@each_image
def test_bases_have_a_tag_that_is_a_version(containerfile: Path) -> None:
    """By way of an ARG, so that build.sh can put a digest in its place."""
    arguments = dict(value.split("=", 1) for value in of(containerfile, "ARG"))
    for base in of(containerfile, "FROM"):
        name = re.fullmatch(r"\$\{(\w+)\}( AS \w+)?", base)
        assert name, f"expected an ARG, found FROM {base}"
        image = arguments[name[1]]
        assert re.search(r":[\w.-]*\d+\.\d+[\w.-]*$", image), f"expected a tag with a version, found {image}"


@each_image
def test_the_last_user_is_a_number_and_not_root(containerfile: Path) -> None:
    assert of(containerfile, "USER")[-1] == USERS[containerfile.parent.name]
    ordered = [step.instruction for step in steps(containerfile)]
    assert "RUN" not in ordered[ordered.index("USER") :]


@each_image
def test_what_is_started_is_a_list_of_words(containerfile: Path) -> None:
    """Written as a text it would run below a shell, which keeps SIGTERM for itself."""
    for value in [*of(containerfile, "ENTRYPOINT"), *of(containerfile, "CMD")]:
        assert all(isinstance(word, str) for word in json.loads(value))
    assert of(containerfile, "CMD")


@each_image
def test_nothing_is_fetched_but_what_is_pinned_by_hash(containerfile: Path) -> None:
    assert not of(containerfile, "ADD")
    for command in of(containerfile, "RUN"):
        assert not re.search(r"\b(curl|wget|git|apt-get|apk)\b", command), command
        for part in command.split("&&"):
            if " install " in part and "/src/dist/" not in part:
                assert "--require-hashes" in part, part
    for requirements in re.findall(r"-r (\S+)", " ".join(of(containerfile, "RUN"))):
        text = (CHECKOUT / requirements).read_text()
        pins = re.findall(r"^[a-z0-9][\w.\[\]-]*==", text, re.MULTILINE)
        assert pins
        assert text.count("\n    --hash=sha256:") >= len(pins)
        assert "://" not in text


@each_image
def test_labels_say_what_it_is(containerfile: Path) -> None:
    labels = " ".join(of(containerfile, "LABEL"))
    for name in ("title", "description", "version", "revision", "licenses"):
        assert f"org.opencontainers.image.{name}=" in labels


def in_context(path: str) -> bool:
    """Whether .dockerignore lets a file of the checkout into a build, by its rules: the last line that fits wins."""
    kept = True
    for line in (CHECKOUT / ".dockerignore").read_text().splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        expression = re.escape(pattern.lstrip("!")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        if re.fullmatch(f"{expression}(/.*)?", path):
            kept = pattern.startswith("!")
    return kept


def files_of(source: str) -> list[str]:
    found = [CHECKOUT / source] if "*" not in source else list(CHECKOUT.glob(source))
    listed = [path for each in found for path in ([each] if each.is_file() else each.rglob("*")) if path.is_file()]
    return [str(path.relative_to(CHECKOUT)) for path in listed if "__pycache__" not in path.parts]


def sources(containerfile: Path) -> list[tuple[Step, str]]:
    return [
        (step, source)
        for step in steps(containerfile)
        if step.instruction == "COPY" and "from" not in copied(step)[2]
        for source in copied(step)[0]
    ]


@each_image
def test_what_is_copied_is_there_and_reaches_the_build(containerfile: Path) -> None:
    copies = sources(containerfile)
    assert copies
    for step, source in copies:
        files = files_of(source)
        assert files, f"COPY {step.value}: no {source}"
        if source not in ("glaim_stream", "training"):  # packages leave out what their wheel leaves out
            assert all(in_context(file) for file in files), f"COPY {step.value}: .dockerignore keeps {source} out"


def test_the_packages_reach_the_build_whole() -> None:
    for package in ("glaim_stream", "training"):
        kept = [file for file in files_of(package) if in_context(file)]
        assert set(files_of(package)) - set(kept) == {file for file in files_of("training/results") if package in file}


def test_nothing_else_reaches_a_build() -> None:
    kept = {"LICENSE", "README.md", "pyproject.toml", "requirements/core.txt", "deploy/catalogues/plant.yaml"}
    assert all(in_context(name) for name in kept)
    for name in (
        ".venv/bin/python", ".cache/kafka/x.jar", ".git/config", "tests/conftest.py", "build/plant.parquet",
        "helm/glaim-stream/values.yaml", "dist/x.whl", ".env", "glaim_stream/__pycache__/cli.cpython-311.pyc",
        "deploy/compose.yaml", "data/readings.csv", "demo-output/report.html", "training/results/paper.md",
    ):  # fmt: skip
        assert not in_context(name), name


@pytest.mark.parametrize("image", ["worker", "training", "triton"])
def test_every_image_has_the_shipped_models_whole(image: str) -> None:
    assert "model_repo" in {source for _, source in sources(IMAGES / image / "Containerfile")}


def test_worker_and_training_are_built_alike() -> None:
    """Two files that must stay one in all but the requirements."""

    def build_stage(name: str) -> list[tuple[str, str]]:
        ordered = [(step.instruction, step.value) for step in steps(IMAGES / name / "Containerfile")]
        second = [index for index, step in enumerate(ordered) if step[0] == "FROM"][1]
        return [(kind, value.replace("training.txt", "core.txt")) for kind, value in ordered[:second]]

    assert build_stage("worker") == build_stage("training")


def test_every_wheel_that_training_needs_exists(tmp_path: Path) -> None:
    """The install step's own resolution with its own file, all but the 5 GB of downloads."""
    line = next(value for value in of(IMAGES / "training" / "Containerfile", "RUN") if "training.txt" in value)
    options = re.search(r"(--only-binary .*-r requirements/training\.txt)", " ".join(line.split()))
    assert options is not None
    command = [
        tool("uv"), "pip", "install", "--dry-run", "--target", str(tmp_path), "--python-version", "3.11",
        "--python-platform", "x86_64-unknown-linux-gnu", *options[1].split(),
    ]  # fmt: skip
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert " + torch==2.9." in run.stderr
    assert " + nvidia-cudnn-cu12==" in run.stderr
