"""Linters of Kubernetes objects: kube-score and Trivy's rules. deploy/linters.toml argues for the exceptions.

    python -m deploy.linters --fetch-only

builds them where they are absent (once, about two minutes on two cores), so that no test has to wait for them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy import gotools
from deploy.cache import CHECKOUT, cache_dir, file_sha256
from deploy.errors import DeployError
from deploy.fetch import fetch_command

EXCEPTIONS = CHECKOUT / "deploy" / "linters.toml"
KUBE_SCORE = ("github.com/zegl/kube-score/cmd/kube-score", "v1.20.0")
TRIVY_SOURCE = CHECKOUT / "deploy" / "trivy"  # go.mod and go.sum pin every module
_PERFECT = 10  # kube-score's grade for a check that passes


class LinterFailed(DeployError):
    """A linter ended with an error, or looked at nothing."""


@dataclass(frozen=True, order=True)
class Finding:
    """A finding of a linter: its rule, and a text that names object and problem."""

    linter: str
    rule: str
    text: str


@dataclass(frozen=True)
class Accepted:
    """Findings that stay, and why: those of a rule whose text matches, in some sets of values or in all."""

    linter: str
    rule: str
    text: str
    reason: str
    sets: tuple[str, ...] = ()

    def covers(self, finding: Finding, name: str) -> bool:
        """Whether it is the reason for this finding about the set of values called `name`."""
        return (
            (self.linter, self.rule) == (finding.linter, finding.rule)
            and (not self.sets or name in self.sets)
            and re.search(self.text, finding.text) is not None
        )


def read_accepted(file: Path = EXCEPTIONS) -> list[Accepted]:
    """The exceptions with their reasons."""
    read = tomllib.loads(file.read_text())
    return [
        Accepted(linter, each["rule"], each["text"], each["reason"], tuple(each.get("sets", ())))
        for linter, listed in read.items()
        for each in listed
    ]


def find_kube_score() -> Path:
    """The `kube-score` on PATH, or one built earlier or now.

    Raises:
        GoUnavailable: There is no kube-score, and no go to build it.
        FetchError: The build failed; the message ends with the compiler's output.
    """
    on_path = shutil.which("kube-score")
    return Path(on_path) if on_path is not None else gotools.build(*KUBE_SCORE, "kube-score")


def find_trivy_rules() -> Path:
    """Trivy's rules for Kubernetes as a program (deploy/trivy/main.go), built earlier or now.

    Raises:
        GoUnavailable: There is no go to build it.
        FetchError: The build failed; the message ends with the compiler's output.
    """
    source = "".join(file_sha256(TRIVY_SOURCE / name)[:6] for name in ("go.sum", "main.go"))
    (program,) = gotools.build_in(
        TRIVY_SOURCE, {"kubernetes-rules": "."}, cache_dir() / "go" / f"trivy-{source}", "-s -w"
    )
    return program


def kube_score(program: Path, objects: str) -> set[Finding]:
    """Return the findings of kube-score in YAML documents, in every grade below the best.

    Raises:
        LinterFailed: It looked at no object.
    """
    run = subprocess.run(
        [program, "score", "--output-format", "json", "-"], input=objects, capture_output=True, text=True, check=False
    )
    try:
        scored: list[dict[str, Any]] = json.loads(run.stdout)
    except ValueError as error:
        raise LinterFailed(
            f"expected JSON from kube-score, found {run.stderr[-1000:] or run.stdout[-1000:]}"
        ) from error
    if not scored:
        raise LinterFailed("expected kube-score to look at objects, it looked at none")
    return {
        Finding("kube-score", check["check"]["id"], f"{each['object_name']} {comment['path']}: {comment['summary']}")
        for each in scored
        for check in each["checks"]
        if not check["skipped"] and check["grade"] < _PERFECT
        for comment in check["comments"] or [{"path": "", "summary": check["check"]["comment"]}]
    }


def trivy(program: Path, objects: Sequence[str]) -> list[set[Finding]]:
    """Return the findings of Trivy's rules in each of several texts of YAML documents, of every severity.

    All in one call, because reading the rules takes longer than applying them.

    Raises:
        LinterFailed: It ended with an error, or applied no rule.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(objects):
            (Path(folder) / f"{number}.yaml").write_text(text)
        run = subprocess.run([program, folder], capture_output=True, text=True, check=False)
    applied = re.search(r"(\d+) results", run.stderr)
    if run.returncode != 0 or applied is None or not int(applied[1]):
        raise LinterFailed(f"expected Trivy's rules to be applied, found {run.stderr[-1000:]}")
    found: list[set[Finding]] = [set() for _ in objects]
    for each in map(json.loads, run.stdout.splitlines()):
        found[int(Path(each["file"]).stem)].add(Finding("trivy", each["rule"], each["message"]))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Find or build the linters and print their paths."""
    return fetch_command(
        "linters",
        "Find or build kube-score and Trivy's rules.",
        lambda: f"kube-score: {find_kube_score()}\nTrivy's rules: {find_trivy_rules()}",
        named="The linters of the chart",
        unavailable=gotools.GoUnavailable,
        arguments=arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
