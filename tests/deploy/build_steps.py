"""Runs the steps of a Containerfile without a container engine: same commands, same files, another root.

The absolute paths that the file changes (/opt, /src, /usr/local/lib) are moved below one directory, also in RUN lines;
`python` is the interpreter of the tests. Both stages share the directory, so nothing is copied between them. Of the
base image there is one package of the standard library.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from dockerfile_parse import DockerfileParser

from deploy.cache import CHECKOUT

MOVED_PATHS = re.compile(r"(?<![\w.])/(opt|src|usr/local/lib)(?=/|\b)")


@dataclass
class Step:
    """One instruction (RUN, COPY, ENV, ...) and its arguments, with continued lines joined."""

    instruction: str
    value: str


@dataclass
class Image:
    """The result of the steps: the files of the image below `root`, and its configuration."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = ""
    entrypoint: str = ""
    command: str = ""

    def path(self, inside: str) -> Path:
        """The path below `root` for an absolute path in the image."""
        return self.root / inside.lstrip("/")

    def moved(self, text: str) -> str:
        """Text of the Containerfile with the moved paths below `root`."""
        return MOVED_PATHS.sub(lambda found: f"{self.root}/{found[1]}", text)

    def variables(self) -> dict[str, str]:
        """The ENV of the image, with the moved paths."""
        return {name: self.moved(value) for name, value in self.environment.items()}


def steps(containerfile: Path) -> list[Step]:
    """The instructions of a Containerfile, without comments."""
    with containerfile.open("rb+") as file:
        parsed = DockerfileParser(fileobj=file).structure
    return [Step(each["instruction"], each["value"]) for each in parsed if each["instruction"] != "COMMENT"]


def copied(step: Step) -> tuple[list[str], str, dict[str, str]]:
    """The sources, the target and the flags of a COPY step."""
    arguments = shlex.split(step.value)
    flags = dict(word.lstrip("-").split("=", 1) for word in arguments if word.startswith("--"))
    names = [word for word in arguments if not word.startswith("--")]
    return names[:-1], names[-1], flags


def execute(containerfile: Path, root: Path) -> Image:
    """Run every step of a Containerfile below `root`.

    Raises:
        AssertionError: A step failed; the message contains its output.
    """
    image = Image(root)
    programs = root / ".programs"
    programs.mkdir(parents=True)
    # The python of the base image, which is on its PATH.
    (programs / "python").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    library = root / "usr" / "local" / "lib" / f"python3.{sys.version_info.minor}"
    shutil.copytree(Path(json.__file__).parent, library / "json", ignore=shutil.ignore_patterns("__pycache__"))
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL", "GLAIM"))}
    outside["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    for step in steps(containerfile):
        if step.instruction == "WORKDIR":
            image.directory = step.value
            image.path(step.value).mkdir(parents=True, exist_ok=True)
        elif step.instruction == "ENV":
            image.environment |= dict(word.split("=", 1) for word in shlex.split(step.value))
        elif step.instruction == "COPY":
            _copy(image, step)
        elif step.instruction == "RUN":
            command = ["/bin/sh", "-eu", "-c", image.moved(step.value)]
            run = subprocess.run(
                command, cwd=image.path(image.directory), env=outside, capture_output=True, text=True, check=False
            )
            assert run.returncode == 0, f"RUN {step.value}\n{run.stdout[-2000:]}{run.stderr[-4000:]}"
        elif step.instruction in ("USER", "ENTRYPOINT", "CMD"):
            setattr(image, {"USER": "user", "ENTRYPOINT": "entrypoint", "CMD": "command"}[step.instruction], step.value)
        else:
            assert step.instruction in ("ARG", "FROM", "LABEL", "EXPOSE"), f"unsupported instruction: {step}"
    return image


def _copy(image: Image, step: Step) -> None:
    sources, target, flags = copied(step)
    if "from" in flags:
        assert [target] == sources, f"expected the same path in both stages, found COPY {step.value}"
        return
    whole = target if target.startswith("/") else f"{image.directory}/{target}"
    destination = image.path(whole)
    for source in sources:
        here = CHECKOUT / source
        matches = sorted(CHECKOUT.glob(source)) if "*" in source else [here]
        for match in matches:
            if match.is_dir():
                shutil.copytree(
                    match, destination, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "results")
                )
            elif target.endswith("/") or target in (".", "./"):
                destination.mkdir(parents=True, exist_ok=True)
                shutil.copy(match, destination)
            else:
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(match, destination)
