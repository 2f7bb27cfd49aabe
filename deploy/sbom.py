"""Writes the SBOMs of the three images and the chart: CycloneDX 1.6.

    python -m deploy.sbom --out dist          # or make sbom

Python packages: names, versions and accepted hashes come from requirements/core.txt and training.txt, the files from
which the images are installed. Licences and dependencies come from the metadata of the same versions in this
environment; where another version is installed, the document omits them and says so. Models, and the files of the
Triton image and of the chart, have their SHA-256. A base image is one component; scan the built image for its packages,
for example with `syft`.
"""

from __future__ import annotations

import argparse
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from pip_requirements_parser import InstallRequirement, RequirementsFile

from deploy.bases import read_bases
from deploy.cache import CHECKOUT, file_sha256
from deploy.errors import DeployError
from deploy.licences import field, installed, read_policy, spoken
from deploy.sbom_files import base_image, file_component, model_files

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
_NAMESPACE = uuid.UUID("8f0d9d0e-62a5-5c0f-9e43-6d0a4a4f4a11")  # namespace of the documents' serial numbers


class SbomInvalid(DeployError):
    """The document violates the CycloneDX schema."""


@dataclass(frozen=True)
class Content:
    """The Python packages of an image: its lock file, and the extras of glaim-stream that it includes."""

    image: str
    lock: Path
    base: str = "PYTHON_IMAGE"  # its base image in deploy/.env
    extras: frozenset[str] = frozenset()


CONTENTS = (
    Content("worker", CHECKOUT / "requirements" / "core.txt", extras=frozenset({"audit"})),
    Content("training", CHECKOUT / "requirements" / "training.txt", extras=frozenset({"training"})),
)


# The files of this repository in the Triton image, and those of the chart; the image installs no Python package.
FILES = {
    "triton": ("TRITON_IMAGE", ("deploy/images/triton/probe.py", "deploy/images/triton/serve")),
    "chart": (None, ("helm/glaim-stream/**/*",)),
}


def documents() -> dict[str, str]:
    """Every document by the name of its image, or `chart`."""
    return {content.image: document(content) for content in CONTENTS} | {name: files_document(name) for name in FILES}


def files_document(name: str) -> str:
    """The document of the Triton image or of the chart: base image, models, and files with their digests.

    Raises:
        SbomInvalid: The document is invalid; the message ends with the validation error.
    """
    base, patterns = FILES[name]
    version = _project()["version"]
    paths = sorted(path for pattern in patterns for path in CHECKOUT.glob(pattern) if path.is_file())
    components = [file_component(path, version) for path in paths]
    if base is not None:
        components += [base_image(read_bases()[base]), *model_files(version)]
    contents = " ".join(f"{each.name} {each.hashes!r}" for each in components)
    bom, root = _bom(name, f"{name} {contents}")
    bom.components.update(components)
    bom.register_dependency(root, components)
    return _validated(name, bom)


def document(content: Content) -> str:
    """The document of an image of Python packages, and of the models in it.

    Raises:
        SbomInvalid: The document is invalid; the message ends with the validation error.
    """
    project = _project()
    components = {canonicalize_name(each.name): each for each in _components(content.lock)}
    others = [base_image(read_bases()[content.base]), *model_files(project["version"])]
    bom, root = _bom(content.image, f"{content.image} {file_sha256(content.lock)}")
    bom.components.update([*components.values(), *others])
    direct = [Requirement(text) for text in project["dependencies"]]
    direct += [Requirement(text) for extra in content.extras for text in project["optional-dependencies"][extra]]
    bom.register_dependency(root, [components[canonicalize_name(each.name)] for each in direct] + others)
    for name, needed in _edges(direct, components).items():
        bom.register_dependency(components[name], [components[each] for each in sorted(needed)])
    return _validated(content.image, bom)


def _project() -> dict[str, Any]:
    return dict(tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"])


def _bom(name: str, contents: str) -> tuple[Bom, Component]:
    """An empty document whose serial number follows from what it is about, and its root component."""
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, contents))
    root = Component(
        name=f"glaim-stream-{name}",
        version=_project()["version"],
        type=ComponentType.APPLICATION,
        bom_ref=f"glaim-stream-{name}",
        licenses=[LicenseFactory().make_from_string(_project()["license"])],
    )
    bom.metadata.component = root
    return bom, root


def _validated(name: str, bom: Bom) -> str:
    from cyclonedx.validation.json import JsonStrictValidator  # three seconds, for the grammar of URLs in jsonschema

    text = str(JsonV1Dot6(bom).output_as_string(indent=2))
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise SbomInvalid(f"{name}: {problem}")
    return text


def locked(lock: Path) -> list[tuple[str, str]]:
    """Names and versions of the packages of a lock file that the images install."""
    return [(str(line.name), str(line.get_pinned_version)) for line in _lines(lock)]


def _lines(lock: Path) -> Iterator[InstallRequirement]:
    for line in RequirementsFile.from_file(str(lock)).requirements:
        if line.marker is None or line.marker.evaluate(TARGET | {"extra": ""}):
            yield line


def _components(lock: Path) -> Iterator[Component]:
    policy = read_policy()
    for line in _lines(lock):
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
        found = installed(name, version)
        if found is None:
            component.properties.add(
                Property(name="glaim:licence", value="unknown: this version is not installed here")
            )
        else:
            said = spoken(name, found.metadata, policy)
            if said:
                component.licenses.add(LicenseFactory().make_from_string(said))
            component.description = field(found.metadata, "Summary")
        yield component


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
        found = installed(components[name].name, str(components[name].version))
        for text in (found.metadata.get_all("Requires-Dist") if found else None) or []:
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
    """Write every document."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.sbom", description="Write the SBOMs of images and chart, CycloneDX 1.6."
    )
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder (default: %(default)s)")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        path = given.out / f"sbom-{name}.cdx.json"
        path.write_text(text)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
