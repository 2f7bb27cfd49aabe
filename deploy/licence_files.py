"""Licence texts of installed packages, by the standard library alone: it also runs while an image is built.

/opt/venv/bin/python deploy/licence_files.py /opt/licenses      # writes THIRD_PARTY.txt
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

OWN = "glaim-stream"
NAME = "THIRD_PARTY.txt"
RULE = "#" * 100
_TEXTS = re.compile(r"(LICEN[CS]E|COPYING|NOTICE)", re.IGNORECASE)


def texts_of(package: Distribution) -> list[tuple[str, str]]:
    """File names and texts of a package's licences and notices; none where it has no such file."""
    files = [file for file in package.files or () if _TEXTS.match(file.name)]
    files = [file for file in files if file.suffix not in (".py", ".pyc")]
    own = [file for file in files if ".dist-info/" in str(file)] or files
    return [(str(file), Path(str(file.locate())).read_text(errors="replace").strip()) for file in own]


def part(heading: str, texts: Iterable[tuple[str, str]]) -> str:
    """The part of one package."""
    return "\n\n".join([heading, *(f"[{file}]\n{text}" for file, text in texts)])


def main(folder: Path) -> None:
    """Write the texts of every package of this environment except our own.

    Raises:
        SystemExit: a package has no licence text.
    """
    packages = sorted(distributions(), key=lambda each: each.name.lower())
    found = {f"{each.name} {each.version}": texts_of(each) for each in packages if each.name != OWN}
    without = [name for name, texts in found.items() if not texts]
    if without:
        raise SystemExit(f"expected a licence file in every package, found none in {', '.join(without)}")
    first = "Third-party packages in this image, each with its licences. The base image has its own in /usr/share/doc."
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(f"\n\n{RULE}\n".join([first, *(part(*each) for each in found.items())]) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
