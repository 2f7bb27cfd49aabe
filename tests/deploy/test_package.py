"""Wheel and sdist: their content, their agreement, and their use without a checkout."""

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from deploy.cache import CHECKOUT
from tests.deploy.build_steps import Image

BIN = Path(sys.executable).parent
PACKAGES = ("glaim_stream", "training")


@dataclass(frozen=True)
class Built:
    """The two files of a release, and a wheel built from the sdist alone."""

    wheel: Path
    sdist: Path
    from_sdist: Path


def uv_build(*arguments: str | Path) -> None:
    command = [BIN / "uv", "build", "--quiet", "--no-build-isolation", "--python", sys.executable, *arguments]
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    direct, by_way = tmp_path_factory.mktemp("direct"), tmp_path_factory.mktemp("by-way-of-sdist")
    uv_build("--wheel", "--out-dir", direct)
    uv_build("--out-dir", by_way)  # uv builds the wheel from the sdist
    return Built(next(direct.glob("*.whl")), next(by_way.glob("*.tar.gz")), next(by_way.glob("*.whl")))


@pytest.fixture(scope="module")
def metadata(built: Built) -> Metadata:
    with zipfile.ZipFile(built.wheel) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return Metadata.from_email(wheel.read(name), validate=True)  # strict: an unknown or malformed field is an error


def committed(*folders: str) -> set[str]:
    """The existing files in these folders that git tracks or does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split()
    return {name for name in listed if (CHECKOUT / name).is_file()}


def test_metadata_is_valid_and_complete(metadata: Metadata) -> None:
    from trove_classifiers import classifiers

    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert metadata.name == "glaim-stream"
    assert str(metadata.version) == project["version"]
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.license_files == ["LICENSE"]
    assert str(metadata.requires_python) == "<3.13,>=3.11"
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (CHECKOUT / "README.md").read_text()
    assert set(metadata.classifiers or []) <= classifiers
    assert set(metadata.provides_extra or []) == set(project["optional-dependencies"])


def test_only_extras_require_torch(metadata: Metadata) -> None:
    requirements: list[Requirement] = metadata.requires_dist or []
    assert {"aiokafka", "tritonclient", "pyarrow"} <= {each.name for each in requirements if each.marker is None}
    assert all("extra ==" in str(each.marker) for each in requirements if each.name == "torch")
    assert "torch" in {each.name for each in requirements}


def test_wheel_contains_only_the_packages(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        info = {name.split("/", 1)[1] for name in wheel.namelist() if ".dist-info/" in name}
        entry_points = wheel.read(next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))).decode()
    expected = set(committed(*PACKAGES))
    assert names == expected
    assert "glaim_stream/py.typed" in names
    assert info == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert "glaim-stream = glaim_stream.commands.main:main" in entry_points
    assert "glaim = glaim_stream.worker.transport:Transport" in entry_points  # by which Faust finds the driver


def test_wheel_passes_the_checks_of_make_dist(built: Built) -> None:
    line = next(line for line in (CHECKOUT / "Makefile").read_text().splitlines() if "check-wheel-contents" in line)
    options = line.split("check-wheel-contents")[1].split()[:-1]
    command = [BIN / "check-wheel-contents", *options, built.wheel]
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_sdist_is_trimmed_and_builds_an_identical_wheel(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {member.name.split("/", 1)[1] for member in sdist.getmembers() if member.isfile()}
    tops = {name.split("/")[0] for name in names}
    assert tops == {
        *PACKAGES, ".gitignore", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md",
        "pyproject.toml",
    }  # fmt: skip
    assert built.from_sdist.read_bytes() == built.wheel.read_bytes()


# The tests below use the wheel in a clean environment outside the checkout, as in the worker's image.


def run_clean(image: Image, folder: Path, *arguments: str) -> str:
    """Run a program of the image's environment in an empty folder and return its output."""
    environment = {name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR")} | image.variables()
    program, *rest = arguments
    run = subprocess.run(
        [image.path(f"/opt/venv/bin/{program}"), *rest],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.slow  # quicker: the files and requirements of the wheel, above, and the import contracts
def test_environment_has_the_requirements_of_the_wheel_and_no_torch(worker_image: Image, tmp_path: Path) -> None:
    python = worker_image.path("/opt/venv/bin/python")
    check = subprocess.run(
        [BIN / "uv", "pip", "check", "--python", python], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr
    listed = subprocess.run(
        [BIN / "uv", "pip", "list", "--python", python, "--format", "json"], capture_output=True, text=True, check=True
    )
    names = {each["name"] for each in json.loads(listed.stdout)}
    assert "glaim-stream" in names
    assert not names & {"torch", "matplotlib", "pip", "setuptools", "hatchling", "uv", "pytest"}


@pytest.mark.slow  # quicker: the files and requirements of the wheel, above, and the import contracts
def test_command_works_outside_the_checkout(worker_image: Image, tmp_path: Path) -> None:
    assert "Repairs sensor streams" in run_clean(worker_image, tmp_path, "glaim-stream", "--help")
    assert "--model-repository" in run_clean(worker_image, tmp_path, "glaim-stream", "worker", "--help")
    assert "imputed-readings" in run_clean(worker_image, tmp_path, "glaim-stream", "schema")
    assert not list(tmp_path.iterdir())  # it writes no files to its working directory
    assert "wrote glaim-demo/pumps.html" in run_clean(worker_image, tmp_path, "glaim-stream", "demo")


IMPORT_ALL = """
import importlib, pkgutil, sys
import glaim_stream
names = [module.name for module in pkgutil.walk_packages(glaim_stream.__path__, "glaim_stream.")]
for name in names:
    if not name.endswith("__main__"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as absent:
            assert absent.name in ("pandas", "polars"), name  # the extra `tables`
print(len(names), "torch" in sys.modules)
"""


@pytest.mark.slow  # quicker: the files and requirements of the wheel, above, and the import contracts
def test_every_module_imports_without_torch(worker_image: Image, tmp_path: Path) -> None:
    count, torch = run_clean(worker_image, tmp_path, "python", "-c", IMPORT_ALL).split()
    assert int(count) > 80
    assert torch == "False"


@pytest.mark.slow  # quicker: the list of packed files, which holds py.typed
def test_type_checker_of_a_user_finds_the_types(worker_image: Image, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n"
        "from glaim_stream.core.contract import read_contract\n"
        'reveal_type(read_contract(Path("model")).window)\n'
        "read_contract(7)\n"
    )
    python = worker_image.path("/opt/venv/bin/python")
    run = subprocess.run(
        [BIN / "mypy", "--strict", "--no-incremental", "--python-executable", python, "mine.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 'mine.py:3: note: Revealed type is "int"' in run.stdout.replace("builtins.", ""), run.stdout
    assert 'mine.py:4: error: Argument 1 to "read_contract"' in run.stdout
    assert "Found 1 error in 1 file" in run.stdout
