"""The parts of SBOMs that are no Python packages: base images, the shipped models, and files of this repository."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.component import Component, ComponentType
from packageurl import PackageURL

from deploy.bases import Base
from deploy.cache import CHECKOUT, file_sha256

MODELS = CHECKOUT / "model_repo"
BEIJING_DATA = MODELS / "beijing-air" / "warmup"  # measurements of others: model_repo/NOTICE
_UNPINNED = "unknown: deploy/.env has a tag without a digest"


def base_image(base: Base) -> Component:
    """The base image of one of our images; its own packages are not listed."""
    namespace, _, name = base.repository.rpartition("/")
    qualifiers = {} if not namespace else {"repository_url": base.repository}
    purl = PackageURL("oci", name=name, version=base.digest, qualifiers={**qualifiers, "tag": base.tag})
    component = Component(
        name=base.repository, version=base.tag, type=ComponentType.CONTAINER, bom_ref=base.tagged, purl=purl
    )
    if base.digest is None:
        component.properties.add(Property(name="glaim:digest", value=_UNPINNED))
    else:
        component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=base.digest.removeprefix("sha256:")))
    return component


def model_files(version: str) -> Iterable[Component]:
    """Every file of the shipped models: contracts, configurations, closed forms and TorchScript."""
    return [
        file_component(
            path,
            version,
            ComponentType.MACHINE_LEARNING_MODEL if path.suffix == ".pt" else None,
            licence="CC-BY-4.0" if path.is_relative_to(BEIJING_DATA) else "Apache-2.0",
        )
        for path in sorted(MODELS.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]


def file_component(
    path: Path, version: str, kind: ComponentType | None = None, licence: str = "Apache-2.0"
) -> Component:
    """A file of this repository with its SHA-256, by default under the project's licence."""
    name = str(path.relative_to(CHECKOUT))
    return Component(
        name=name,
        version=version,
        type=kind or ComponentType.FILE,
        bom_ref=name,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=file_sha256(path))],
        licenses=[LicenseFactory().make_from_string(licence)],
    )
