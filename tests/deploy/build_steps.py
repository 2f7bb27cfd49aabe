"""Runs a Containerfile's own steps where there is no container engine: same commands, same files, another root.

Every absolute path of the file's own (/opt, /src) is moved below one directory, in RUN lines too; `python` is the
interpreter of the tests. Both stages share the directory, so copying between them is nothing to do. What this cannot
show: the base image's own contents, and whether an engine accepts the file (hadolint reads it beside).
"""

from __future__ import annotations

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

OWN_PATHS = re.compile(r"(?<![\w.])/(opt|src)(?=/|\b)")


@dataclass
class Step:
    """One instruction: RUN, COPY, ENV, ..., and what follows it with its line ends joined."""

    instruction: str
    value: str


@dataclass
class Image:
    """What stands in a tree after the steps: the paths are the image's, below `root`."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = ""
    entrypoint: str = ""
    command: str = ""

    def path(self, inside: str) -> Path:
        """Where the image's absolute path lies here."""
        return self.root / inside.lstrip("/")

    def moved(self, text: str) -> str:
        """A text of the Containerfile with its own absolute paths below `root`."""
        return OWN_PATHS.sub(lambda found: f"{self.root}/{found[1]}", text)

    def variables(self) -> dict[str, str]:
        """The image's ENV, moved; PATH has its own folders first."""
        return {name: self.moved(value) for name, value in self.environment.items()}


def steps(containerfile: Path) -> list[Step]:
    """The instructions of a Containerfile, comments left out."""
    with containerfile.open("rb+") as file:
        parsed = DockerfileParser(fileobj=file).structure
    return [Step(each["instruction"], each["value"]) for each in parsed if each["instruction"] != "COMMENT"]


def copied(step: Step) -> tuple[list[str], str, dict[str, str]]:
    """A COPY step's sources, its target and its flags."""
    words = shlex.split(step.value)
    flags = dict(word.lstrip("-").split("=", 1) for word in words if word.startswith("--"))
    names = [word for word in words if not word.startswith("--")]
    return names[:-1], names[-1], flags


def execute(containerfile: Path, root: Path) -> Image:
    """Do every step of a Containerfile below `root`; a step that fails is an AssertionError with what it printed."""
    image = Image(root)
    programs = root / ".programs"
    programs.mkdir(parents=True)
    # The base image's python, found on PATH as there.
    (programs / "python").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
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
            assert step.instruction in ("ARG", "FROM", "LABEL", "EXPOSE"), f"a step that is not run here: {step}"
    return image


def _copy(image: Image, step: Step) -> None:
    sources, target, flags = copied(step)
    if "from" in flags:
        assert [target] == sources, f"another place in another stage is not followed here: COPY {step.value}"
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
