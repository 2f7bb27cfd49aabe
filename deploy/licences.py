"""The licences of locked packages: read from the metadata of the installed version, and held against licences.toml."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from license_expression import ExpressionError, get_spdx_licensing

from deploy.cache import CHECKOUT
from deploy.errors import DeployError
from deploy.licence_files import texts_of

POLICY = CHECKOUT / "deploy" / "licences.toml"


class LicenceRefused(DeployError):
    """A package has no known licence, or one that licences.toml does not accept."""


def read_policy(file: Path = POLICY) -> dict[str, Any]:
    """The tables of licences.toml."""
    return tomllib.loads(file.read_text())


def installed(name: str, version: str) -> metadata.Distribution | None:
    """Exactly this version in this environment, or None."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    return found if found.metadata["Version"] == version else None


def field(described: metadata.PackageMetadata, name: str) -> str | None:
    """A metadata field, or None if the package does not set it."""
    # PackageMetadata promises no `get` before Python 3.12, and indexing an absent field is deprecated.
    return described[name] if name in described else None  # noqa: SIM401


def stated(described: metadata.PackageMetadata) -> str:
    """The stated licence: the SPDX expression, else the licence field, else the licences among the classifiers."""
    expression = field(described, "License-Expression")
    if expression:
        return expression
    written = (field(described, "License") or "").strip()
    if written and "\n" not in written and len(written) <= 60:  # some packages put the whole licence text there
        return written
    named = [each for each in described.get_all("Classifier") or [] if each.startswith("License :: ")]
    return " AND ".join(each.rsplit(" :: ", 1)[1] for each in named)


def spoken(name: str, described: metadata.PackageMetadata, policy: dict[str, Any]) -> str:
    """The licence of a package, as an SPDX identifier where possible, corrected where it is wrong."""
    said = stated(described)
    said = str(policy["names"].get(said, said))
    corrected: dict[str, str] = policy["packages"].get(name, {})
    return corrected["licence"] if corrected.get("stated") == said else said


def licence(name: str, version: str, policy: dict[str, Any]) -> str:
    """The SPDX expression of a package's licence, or the name of the one that the policy argues for.

    Where the policy says that the metadata are wrong, it is the one of the policy.

    Raises:
        LicenceRefused: The version is not installed here, states no licence, or one that is not accepted.
    """
    found = installed(name, version)
    said = spoken(name, found.metadata, policy) if found else ""
    for pattern, argued in policy["packages"].items():
        if fnmatch.fnmatch(name, pattern) and argued["licence"] == said:
            return said
    if not said:
        what = "no licence in its metadata" if found else "another version or none installed here"
        raise LicenceRefused(f"expected the licence of {name} {version}, found {what}: run `make setup`")
    refused = sorted(_symbols(said) - set(policy["accepted"]))
    if refused:
        raise LicenceRefused(
            f"expected {name} {version} under licences that {POLICY.name} accepts, found {', '.join(refused)} in {said}"
        )
    return said


def _symbols(expression: str) -> set[str]:
    try:
        parsed = get_spdx_licensing().parse(expression, validate=False)
    except ExpressionError:
        return {expression}  # the name of a licence, not an expression
    return {str(each.key) for each in parsed.symbols}


def texts(name: str, version: str) -> Iterable[tuple[str, str]]:
    """File names and texts of a package's licences and notices.

    Raises:
        LicenceRefused: The package is installed without any.
    """
    package = installed(name, version)
    found = texts_of(package) if package else []
    if not found:
        raise LicenceRefused(f"expected a licence file in {name} {version}, found none")
    return found
