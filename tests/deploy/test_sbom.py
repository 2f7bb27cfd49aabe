"""The SBOMs contain the packages of the lock files and comply with the CycloneDX schema."""

from __future__ import annotations

import json
import platform
import re
import sys
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy import sbom
from deploy.sbom import CONTENTS, SbomInvalid, document


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {content.image: document(content) for content in CONTENTS}


@pytest.fixture(scope="module")
def documents(texts: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {image: json.loads(text) for image, text in texts.items()}


def names(made: dict[str, Any]) -> set[str]:
    return {component["name"] for component in made["components"]}


def test_documents_are_valid_and_the_validator_detects_errors(texts: dict[str, str]) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    for text in texts.values():
        assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"purl"', '"url"', 1)) is not None


def test_documents_contain_the_locked_packages_for_linux(documents: dict[str, dict[str, Any]]) -> None:
    for content in CONTENTS:
        locked = re.findall(r"^([\w.-]+)==(\S+)( ; .*)? \\$", content.lock.read_text(), re.MULTILINE)
        expected = {(name, version) for name, version, marker in locked if not re.search("win32|>= '3.12'", marker)}
        assert {"colorama", "numpy"} <= {name for name, _, _ in locked}
        assert "colorama" not in {name for name, _ in expected}
        found = {(each["name"], each["version"]) for each in documents[content.image]["components"]}
        assert found == expected
    assert "torch" in names(documents["training"])
    assert "torch" not in names(documents["worker"])
    assert names(documents["worker"]) < names(documents["training"])


def test_documents_contain_every_hash_of_the_lock_file(documents: dict[str, dict[str, Any]]) -> None:
    for content in CONTENTS:
        text = "\n" + content.lock.read_text()
        for component in documents[content.image]["components"]:
            hashes = {each["content"] for each in component["externalReferences"][0]["hashes"]}
            start = text.index(f"\n{component['name']}=={component['version']} ")
            block = re.split(r"\n(?=[a-z0-9])", text[start + 1 :], maxsplit=1)[0]
            assert hashes == set(re.findall(r"sha256:([0-9a-f]{64})", block)), component["name"]


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the metadata of CUDA's packages is not installed here",
)
def test_licences_and_dependencies_are_known(documents: dict[str, dict[str, Any]]) -> None:
    for image, made in documents.items():
        silent = {each["name"] for each in made["components"] if not each.get("licenses")}
        assert not silent, f"{image}: no licence for {silent}"
        graph = {each["ref"]: each.get("dependsOn", []) for each in made["dependencies"]}
        root = made["metadata"]["component"]["bom-ref"]
        reached, waiting = set(), [root]
        while waiting:
            ref = waiting.pop()
            if ref not in reached:
                reached.add(ref)
                waiting += graph[ref]
        assert reached == {root, *(each["bom-ref"] for each in made["components"])}, (
            "a package that no other package needs"
        )


def test_package_with_another_installed_version_has_no_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    described = sbom.metadata.metadata("numpy")
    real = sbom.metadata.metadata

    def changed(name: str) -> Any:
        if name != "numpy":
            return real(name)
        described.replace_header("Version", "0.0.1")  # type: ignore[attr-defined]
        return described

    monkeypatch.setattr(sbom.metadata, "metadata", changed)
    numpy = next(each for each in json.loads(document(CONTENTS[0]))["components"] if each["name"] == "numpy")
    assert "licenses" not in numpy
    assert numpy["properties"][0]["value"] == "unknown: this version is not installed here"


def test_invalid_document_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sbom.JsonStrictValidator, "validate_str", lambda self, text: "no such field")
    with pytest.raises(SbomInvalid, match="worker: no such field"):
        document(CONTENTS[0])
