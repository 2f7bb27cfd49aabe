"""Checks of the images without a container engine: linters, rules of this project, and the build context."""

import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.bases import OURS_ARE_BUILT_FROM, read_bases
from deploy.cache import CHECKOUT
from deploy.release import IMAGES as IMAGES_OF_RELEASE
from tests.deploy.build_steps import Step, copied, steps

IMAGES = CHECKOUT / "deploy" / "images"
CONTAINERFILES = sorted(IMAGES.glob("*/Containerfile"))
SCRIPTS = [
    *(IMAGES / f"{name}.sh" for name in ("build", "smoke", "served", "without_registry")),
    IMAGES / "triton" / "serve",
]
USERS = {"worker": "10001:10001", "training": "10001:10001", "triton": "1000:1000"}

each_image = pytest.mark.parametrize("containerfile", CONTAINERFILES, ids=lambda path: path.parent.name)


def tool(name: str) -> Path:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} for this platform")
    return Path(found)


def values_of(containerfile: Path, instruction: str) -> list[str]:
    return [step.value for step in steps(containerfile) if step.instruction == instruction]


def test_every_image_is_checked() -> None:
    assert {path.parent.name for path in CONTAINERFILES} == set(USERS)


@each_image
def test_hadolint_passes(containerfile: Path) -> None:
    run = subprocess.run([tool("hadolint"), containerfile], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_passes(script: Path) -> None:
    run = subprocess.run([tool("shellcheck"), script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert script.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", script], check=True)


def test_build_script_refuses_an_unknown_image() -> None:
    run = subprocess.run([IMAGES / "build.sh", "workers"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "expected worker, training or triton, found workers" in run.stderr


@each_image
def test_base_image_comes_from_the_one_file(containerfile: Path) -> None:
    """The ARG has no default: a second place would be forgotten when the first one is updated."""
    arguments = set(values_of(containerfile, "ARG"))
    bases = {re.sub(r"\$\{(\w+)\}( AS \w+)?", r"\1", base) for base in values_of(containerfile, "FROM")}
    assert bases <= arguments
    assert bases == {IMAGES_OF_RELEASE[containerfile.parent.name][0]}
    assert bases <= set(read_bases()) & set(OURS_ARE_BUILT_FROM)


@each_image
def test_last_user_is_numeric_and_not_root(containerfile: Path) -> None:
    assert values_of(containerfile, "USER")[-1] == USERS[containerfile.parent.name]
    ordered = [step.instruction for step in steps(containerfile)]
    assert "RUN" not in ordered[ordered.index("USER") :]


@each_image
def test_command_is_in_exec_form(containerfile: Path) -> None:
    """In shell form it would run in a shell, which does not forward SIGTERM."""
    for value in [*values_of(containerfile, "ENTRYPOINT"), *values_of(containerfile, "CMD")]:
        assert all(isinstance(word, str) for word in json.loads(value))
    assert values_of(containerfile, "CMD")


@each_image
def test_every_download_is_pinned_by_hash(containerfile: Path) -> None:
    assert not values_of(containerfile, "ADD")
    for command in values_of(containerfile, "RUN"):
        assert not re.search(r"\b(curl|wget|git|apt-get|apk)\b", command), command
        for part in command.split("&&"):
            if " install " in part and "/src/dist/" not in part:
                assert "--require-hashes" in part, part
    for requirements in re.findall(r"-r (\S+)", " ".join(values_of(containerfile, "RUN"))):
        text = (CHECKOUT / requirements).read_text()
        pins = re.findall(r"^[a-z0-9][\w.\[\]-]*==", text, re.MULTILINE)
        assert pins
        assert text.count("\n    --hash=sha256:") >= len(pins)
        assert "://" not in text


@each_image
def test_byte_code_is_valid_whatever_the_times_of_the_files_are(containerfile: Path) -> None:
    """test_image_start.py shows what happens otherwise."""
    commands = [part for command in values_of(containerfile, "RUN") for part in command.split("&&")]
    packages = [part for part in commands if "--compile-bytecode" in part]
    library = [part for part in commands if "compileall" in part]
    assert all("PYC_INVALIDATION_MODE=UNCHECKED_HASH " in part for part in packages)
    assert all("-qf " in part and "--invalidation-mode unchecked-hash " in part for part in library)
    installs_python = containerfile.parent.name != "triton"
    assert (len(packages), len(library)) == ((2, 1) if installs_python else (0, 0))


@each_image
def test_labels_describe_the_image(containerfile: Path) -> None:
    labels = " ".join(values_of(containerfile, "LABEL"))
    for name in ("title", "description", "version", "revision", "licenses"):
        assert f"org.opencontainers.image.{name}=" in labels


def in_context(path: str) -> bool:
    """Whether .dockerignore admits a file of the checkout to a build: the last matching line decides."""
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
def test_copied_files_exist_and_are_in_the_build_context(containerfile: Path) -> None:
    copies = sources(containerfile)
    assert copies
    for step, source in copies:
        files = files_of(source)
        assert files, f"COPY {step.value}: {source} does not exist"
        if source not in ("glaim_stream", "training"):  # packages omit the files that their wheel omits
            assert all(in_context(file) for file in files), f"COPY {step.value}: .dockerignore excludes {source}"


def test_packages_are_complete_in_the_build_context() -> None:
    for package in ("glaim_stream", "training"):
        kept = [file for file in files_of(package) if in_context(file)]
        assert set(files_of(package)) == set(kept)


def test_build_context_contains_nothing_else() -> None:
    kept = {"LICENSE", "README.md", "pyproject.toml", "requirements/core.txt", "deploy/catalogues/plant.yaml"}
    assert all(in_context(name) for name in kept)
    for name in (
        ".venv/bin/python", ".cache/kafka/x.jar", ".git/config", "tests/conftest.py", "build/plant.parquet",
        "helm/glaim-stream/values.yaml", "dist/x.whl", ".env", "glaim_stream/__pycache__/cli.cpython-311.pyc",
        "deploy/compose.yaml", "data/readings.csv", "demo-output/report.html", "benchmarks/results/plant-pump.md",
    ):  # fmt: skip
        assert not in_context(name), name


@pytest.mark.parametrize("image", ["worker", "training", "triton"])
def test_every_image_has_the_complete_shipped_models(image: str) -> None:
    assert "model_repo" in {source for _, source in sources(IMAGES / image / "Containerfile")}


@each_image
def test_every_image_has_its_licences(containerfile: Path) -> None:
    """Ours, that of the data in the models, and the texts of the packages where there are any."""
    copies = [copied(step) for step in steps(containerfile) if step.instruction == "COPY"]
    (files,) = [found for found, target, _ in copies if target == "/opt/licenses/"]
    assert files == ["LICENSE", "model_repo/NOTICE"]
    collected = [command for command in values_of(containerfile, "RUN") if "deploy/licence_files.py /opt/" in command]
    taken = [target for _, target, flags in copies if flags.get("from") == "build" and target == "/opt/licenses"]
    assert len(collected) == len(taken) == (0 if containerfile.parent.name == "triton" else 1)


def test_worker_and_training_have_the_same_build_stage() -> None:
    """The two files may differ in their requirements only."""

    def build_stage(name: str) -> list[tuple[str, str]]:
        ordered = [(step.instruction, step.value) for step in steps(IMAGES / name / "Containerfile")]
        second = [index for index, step in enumerate(ordered) if step[0] == "FROM"][1]
        return [(kind, value.replace("training.txt", "core.txt")) for kind, value in ordered[:second]]

    assert build_stage("worker") == build_stage("training")


def resolved(image: str, platform: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Resolves the requirements of an image as its install step does, without the downloads of up to 5 GB."""
    (line,) = (value for value in values_of(IMAGES / image / "Containerfile", "RUN") if "--only-binary" in value)
    options = re.search(r"(--only-binary .*-r requirements/\w+\.txt)", " ".join(line.split()))
    assert options is not None
    command = [
        tool("uv"), "pip", "install", "--dry-run", "--target", str(folder), "--python-version", "3.11",
        "--python-platform", platform, *options[1].split(),
    ]  # fmt: skip
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


def test_every_wheel_that_training_needs_exists(tmp_path: Path) -> None:
    run = resolved("training", "x86_64-unknown-linux-gnu", tmp_path)
    assert run.returncode == 0, run.stderr
    assert " + torch==2.9." in run.stderr
    assert " + nvidia-cudnn-cu12==" in run.stderr


@pytest.mark.parametrize("image", ["worker", "training"])
def test_images_are_released_for_every_platform_that_has_all_wheels(image: str, tmp_path: Path) -> None:
    run = resolved(image, "aarch64-manylinux_2_28", tmp_path)
    if "linux/arm64" in IMAGES_OF_RELEASE[image][1]:
        assert run.returncode == 0, run.stderr
    else:
        assert "faust-streaming==0.15.3 has no usable wheels" in " ".join(run.stderr.split()), (
            f"expected no wheel of faust-streaming for arm64, as deploy/release.py says, found\n{run.stderr}"
        )
