"""Writes the SBOMs of the worker and the training image: CycloneDX documents of their Python packages.

    python -m deploy.sbom --out dist          # or make sbom

Names, versions and accepted hashes come from requirements/core.txt and training.txt, the files from which the images
are installed. Licences and dependencies come from the metadata of the same versions in this environment; where another
version is installed, the document omits them and says so. Packages of the base image are not included; scan the built
image for those, for example with `syft`.
"""

from __future__ import annotations

import argparse
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from pip_requirements_parser import RequirementsFile

from deploy.cache import CHECKOUT, file_sha256
from deploy.errors import DeployError

# The platform of the images (deploy/images). The lock files cover other platforms as well, so markers are needed.
TARGET = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}
_NAMESPACE = uuid.UUID("8f0d9d0e-62a5-5c0f-9e43-6d0a4a4f4a11")  # for the documents' serial numbers


class SbomInvalid(DeployError):
    """The document violates the CycloneDX schema."""


@dataclass(frozen=True)
class Content:
    """The Python packages of an image: its lock file, and the extras of glaim-stream that it includes."""

    image: str
    lock: Path
    extras: frozenset[str] = frozenset()


CONTENTS = (
    Content("worker", CHECKOUT / "requirements" / "core.txt"),
    Content("training", CHECKOUT / "requirements" / "training.txt", frozenset({"training"})),
)


def document(content: Content) -> str:
    """The CycloneDX 1.6 document of an image as JSON, validated against the schema.

    Raises:
        SbomInvalid: The document is invalid; the message ends with the validation error.
    """
    components = {canonicalize_name(each.name): each for each in _components(content.lock)}
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, f"{content.image} {file_sha256(content.lock)}"))
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    root = Component(
        name=f"glaim-stream-{content.image}",
        version=project["version"],
        type=ComponentType.APPLICATION,
        bom_ref=f"glaim-stream-{content.image}",
        licenses=[LicenseFactory().make_from_string(project["license"])],
    )
    bom.metadata.component = root
    bom.components.update(components.values())
    direct = [Requirement(text) for text in project["dependencies"]]
    direct += [Requirement(text) for extra in content.extras for text in project["optional-dependencies"][extra]]
    bom.register_dependency(root, [components[canonicalize_name(each.name)] for each in direct])
    for name, needed in _edges(direct, components).items():
        bom.register_dependency(components[name], [components[each] for each in sorted(needed)])
    text = str(JsonV1Dot6(bom).output_as_string(indent=2))
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise SbomInvalid(f"{content.image}: {problem}")
    return text


def _components(lock: Path) -> Iterator[Component]:
    for line in RequirementsFile.from_file(str(lock)).requirements:
        if line.marker is not None and not line.marker.evaluate(TARGET | {"extra": ""}):
            continue
        name, version = str(line.name), str(line.get_pinned_version)
        purl = PackageURL("pypi", name=canonicalize_name(name), version=version)
        files = ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION,
            url=XsUri(purl.to_string()),
            comment="the installer accepts any file with one of these hashes",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each.split(":")[1]) for each in line.hash_options],
        )
        component = Component(
            name=name, version=version, type=ComponentType.LIBRARY, bom_ref=purl.to_string(), purl=purl,
            external_references=[files],
        )  # fmt: skip
        described = _installed(name, version)
        if described is None:
            component.properties.add(
                Property(name="glaim:licence", value="unknown: this version is not installed here")
            )
        else:
            component.licenses.update(_licences(described))
            component.description = _field(described, "Summary")
        yield component


def _installed(name: str, version: str) -> metadata.PackageMetadata | None:
    """The metadata of exactly this version, or None if it is not installed in this environment."""
    try:
        described = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    return described if described["Version"] == version else None


def _field(described: metadata.PackageMetadata, name: str) -> str | None:
    """A metadata field, or None if the package does not set it."""
    # PackageMetadata promises no `get` before Python 3.12, and indexing an absent field is deprecated.
    return described[name] if name in described else None  # noqa: SIM401


def _licences(described: metadata.PackageMetadata) -> list[License]:
    """The SPDX expression of a package, else its licence field, else the licences among its classifiers."""
    expression = _field(described, "License-Expression")
    if expression:
        return [LicenseFactory().make_from_string(expression)]
    field = (_field(described, "License") or "").strip()
    if field and "\n" not in field and len(field) <= 60:  # some packages put the whole licence text there
        return [LicenseFactory().make_from_string(field)]
    named = [each for each in described.get_all("Classifier") or [] if each.startswith("License :: ")]
    return [LicenseFactory().make_from_string(each.rsplit(" :: ", 1)[1]) for each in named]


def _edges(
    direct: list[Requirement], components: dict[NormalizedName, Component]
) -> dict[NormalizedName, set[NormalizedName]]:
    """The dependencies of each package, starting from the project's requirements and following requested extras."""
    edges: dict[NormalizedName, set[NormalizedName]] = {}
    waiting = [(canonicalize_name(each.name), frozenset(each.extras)) for each in direct]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        needed = edges.setdefault(name, set())
        described = _installed(components[name].name, str(components[name].version))
        for text in (described.get_all("Requires-Dist") if described else None) or []:
            requirement = Requirement(text)
            marker, other = requirement.marker, canonicalize_name(requirement.name)
            if marker is not None and not any(marker.evaluate(TARGET | {"extra": extra}) for extra in ("", *extras)):
                continue
            if other in components:
                needed.add(other)
                step = (other, frozenset(requirement.extras))
                if step not in seen:
                    seen.add(step)
                    waiting.append(step)
    return edges


def main(arguments: list[str] | None = None) -> int:
    """Write both documents."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.sbom", description="Write the images' SBOMs, CycloneDX 1.6."
    )
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder (default: %(default)s)")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    for content in CONTENTS:
        path = given.out / f"sbom-{content.image}.cdx.json"
        path.write_text(document(content))
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
