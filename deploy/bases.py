"""The images of other projects, from deploy/.env: the bases of our images, and the servers that compose runs.

    python -m deploy.bases           print them
    python -m deploy.bases --pin     ask their registries for the digests of the tags, and write them into the file

Renovate does the second for every new image (renovate.json).
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.cache import CHECKOUT
from deploy.crane import find_crane
from deploy.errors import DeployError

FILE = CHECKOUT / "deploy" / ".env"
OURS_ARE_BUILT_FROM = ("PYTHON_IMAGE", "TRITON_IMAGE")
_LINE = re.compile(r"([A-Z]+_IMAGE)=([^:@\s]+(?::\d+/[^:@\s]+)?):([\w][\w.-]*)(?:@(sha256:[0-9a-f]{64}))?")


class BasesInvalid(DeployError):
    """A line of the file is not NAME_IMAGE=repository:tag, with or without @sha256:digest."""


class DigestUnknown(DeployError):
    """A registry did not name the digest of a tag."""


class TagUnknown(DigestUnknown):
    """A registry answered, and has no such tag."""


@dataclass(frozen=True)
class Base:
    """An image of another project: `repository:tag`, and the digest that it had when it was last looked at."""

    variable: str
    repository: str
    tag: str
    digest: str | None

    @property
    def tagged(self) -> str:
        """The name without the digest."""
        return f"{self.repository}:{self.tag}"

    @property
    def reference(self) -> str:
        """The name with the digest, if there is one."""
        return f"{self.tagged}@{self.digest}" if self.digest else self.tagged


def read_bases(file: Path = FILE) -> dict[str, Base]:
    """The images by their variables.

    Raises:
        BasesInvalid: A line cannot be read, or names a variable again.
    """
    bases: dict[str, Base] = {}
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None or found[1] in bases:
            raise BasesInvalid(
                f"{file}, line {number}: expected NAME_IMAGE=repository:tag[@sha256:...], once, found {line}"
            )
        bases[found[1]] = Base(found[1], found[2], found[3], found[4])
    return bases


def ask_registry(tagged: str) -> str:
    """The digest that a tag has now.

    Raises:
        TagUnknown: The registry has no such tag.
        DigestUnknown: The registry did not answer with a digest.
        GoUnavailable: There is no crane, and no go to build it.
    """
    crane = find_crane()
    try:
        run = subprocess.run([crane, "digest", tagged], capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired as error:
        raise DigestUnknown(f"expected the digest of {tagged} within 120 s, found no answer") from error
    digest, problem = run.stdout.strip(), run.stderr.strip()[-500:]
    if run.returncode != 0 and re.search(r"MANIFEST_UNKNOWN|NAME_UNKNOWN", problem):
        raise TagUnknown(f"expected {tagged} in its registry, found: {problem}")
    if run.returncode != 0 or not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise DigestUnknown(f"expected the digest of {tagged}, found: {problem or digest}")
    return digest


def pin(file: Path = FILE, ask: Callable[[str], str] = ask_registry) -> dict[str, Base]:
    """Write the digest of every tag into the file, or leave it unchanged if one of them is unknown.

    Raises:
        BasesInvalid: As for `read_bases`.
        DigestUnknown: A registry did not name a digest.
    """
    text = file.read_text()
    for base in read_bases(file).values():
        text = text.replace(f"{base.variable}={base.reference}", f"{base.variable}={base.tagged}@{ask(base.tagged)}")
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)
    return read_bases(file)


def main(arguments: list[str] | None = None) -> int:
    """Print the images, and pin them first if asked to."""
    parser = argparse.ArgumentParser(prog="python -m deploy.bases", description="The images of deploy/.env.")
    parser.add_argument("--pin", action="store_true", help="write the digests of the tags into the file")
    try:
        bases = pin() if parser.parse_args(arguments).pin else read_bases()
    except DeployError as error:
        print(f"error: {error}")
        return 1
    for base in bases.values():
        print(f"{base.variable}  {base.reference}{'' if base.digest else '  (no digest)'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
