"""Writes the third-party notices of the images: every package, its licence, and the texts that the licence asks for.

    python -m deploy.notices --out dist          # part of make sbom

Fails at a package without a known licence, and at one that deploy/licences.toml does not accept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deploy.bases import read_bases
from deploy.errors import DeployError
from deploy.licences import LicenceRefused, licence, read_policy, texts
from deploy.sbom import CONTENTS, Content, locked

RULE = "#" * 100


def notices(content: Content) -> str:
    """The notices of an image's packages as text.

    Raises:
        LicenceRefused: Licences are unknown or not accepted, or texts are missing; the message lists all of them.
    """
    policy, parts, refused = read_policy(), [], []
    for name, version in locked(content.lock):
        try:
            heading = f"{name} {version}: {licence(name, version, policy)}"
            parts.append("\n\n".join([heading, *(f"[{file}]\n{text}" for file, text in texts(name, version))]))
        except LicenceRefused as error:
            refused.append(str(error))
    if refused:
        raise LicenceRefused("\n".join(refused))
    base = read_bases()[content.base].reference
    first = (
        f"Third-party software in the image glaim-stream/{content.image}\n\n"
        f"Python packages, each with its licence. The base image, {base}, contains the licences of\n"
        "its own files in /usr/share/doc."
    )
    return f"\n\n{RULE}\n".join([first, *parts]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write one file for each image that contains packages."""
    parser = argparse.ArgumentParser(prog="python -m deploy.notices", description="Write the third-party notices.")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder (default: %(default)s)")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        for content in CONTENTS:
            path = given.out / f"notices-{content.image}.txt"
            path.write_text(notices(content))
            print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    except DeployError as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
