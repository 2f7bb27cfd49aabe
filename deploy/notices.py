"""Writes the third-party notices of images and chart: every package, its licence, and the texts that it asks for.

    python -m deploy.notices --out dist          # part of make sbom

Fails at a package without a known licence, and at one that deploy/licences.toml does not accept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deploy.bases import read_bases
from deploy.cache import CHECKOUT
from deploy.errors import DeployError
from deploy.licence_files import RULE, part
from deploy.licences import LicenceRefused, licence, read_policy, texts
from deploy.sbom import CONTENTS, Content, locked


def notices(content: Content) -> str:
    """The notices of an image's packages as text.

    Raises:
        LicenceRefused: Licences are unknown or not accepted, or texts are missing; the message lists all of them.
    """
    policy, parts, refused = read_policy(), [], []
    for name, version in locked(content.lock):
        try:
            parts.append(part(f"{name} {version}: {licence(name, version, policy)}", texts(name, version)))
        except LicenceRefused as error:
            refused.append(str(error))
    if refused:
        raise LicenceRefused("\n".join(refused))
    base = read_bases()[content.base].reference
    first = (
        f"Third-party software in the image glaim-stream/{content.image}\n\n"
        f"Python packages, each with its licence. The base image, {base}, contains the licences of\n"
        f"its own files in /usr/share/doc.\n\n{models()}"
    )
    return f"\n\n{RULE}\n".join([first, *parts]) + "\n"


def models() -> str:
    """The notice of the shipped models, which contain data of others; every image has it next to them."""
    return (CHECKOUT / "model_repo" / "NOTICE").read_text().strip()


def others() -> dict[str, str]:
    """The notices of what installs no package: the Triton image and the chart."""
    base = read_bases()["TRITON_IMAGE"].reference
    return {
        "triton": (
            f"Third-party software in the image glaim-stream/triton\n\n"
            f"The base image, {base}, is passed on under NVIDIA's terms for it; it contains the licences\n"
            f"of its own files. Nothing else of others is added.\n\n{models()}\n"
        ),
        "chart": "Third-party software in the chart glaim-stream\n\nNone: all of its files are Apache-2.0.\n",
    }


def main(arguments: list[str] | None = None) -> int:
    """Write one file for each image, and one for the chart."""
    parser = argparse.ArgumentParser(prog="python -m deploy.notices", description="Write the third-party notices.")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder (default: %(default)s)")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        for name, text in ({each.image: notices(each) for each in CONTENTS} | others()).items():
            path = given.out / f"notices-{name}.txt"
            path.write_text(text)
            print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    except DeployError as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
