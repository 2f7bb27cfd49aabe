"""The SBOMs contain the packages of the lock files and comply with the CycloneDX schema."""

import hashlib
import json
import platform
import re
import sys
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion

from deploy import sbom
from deploy.bases import read_bases
from deploy.cache import CHECKOUT
from deploy.release import IMAGES
from deploy.sbom import CONTENTS, SbomInvalid, document


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return sbom.documents()


@pytest.fixture(scope="module")
def documents(texts: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {image: json.loads(text) for image, text in texts.items()}


def packages(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in made["components"] if each.get("purl", "").startswith("pkg:pypi/")]


def names(made: dict[str, Any]) -> set[str]:
    return {component["name"] for component in packages(made)}


@pytest.mark.slow  # quicker: what the documents hold, below
def test_documents_are_valid_and_the_validator_detects_errors(texts: dict[str, str]) -> None:
    from cyclonedx.validation.json import JsonStrictValidator  # three seconds, which every test process would take

    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert set(texts) == {"worker", "training", "triton", "chart"}
    for text in texts.values():
        assert validator.validate_str(text) is None
    text = texts["worker"]
    assert validator.validate_str(text.replace('"purl"', '"url"', 1)) is not None


def test_documents_contain_the_locked_packages_for_linux(documents: dict[str, dict[str, Any]]) -> None:
    for content in CONTENTS:
        locked = re.findall(r"^([\w.-]+)==(\S+)( ; .*)? \\$", content.lock.read_text(), re.MULTILINE)
        expected = {(name, version) for name, version, marker in locked if not re.search("win32|>= '3.12'", marker)}
        assert {"colorama", "numpy"} <= {name for name, _, _ in locked}
        assert "colorama" not in {name for name, _ in expected}
        found = {(each["name"], each["version"]) for each in packages(documents[content.image])}
        assert found == expected
    assert "torch" in names(documents["training"])
    assert "torch" not in names(documents["worker"])
    assert names(documents["worker"]) - {"duckdb"} < names(documents["training"])


def test_documents_contain_every_hash_of_the_lock_file(documents: dict[str, dict[str, Any]]) -> None:
    for content in CONTENTS:
        text = "\n" + content.lock.read_text()
        for component in packages(documents[content.image]):
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
        parts = [each for each in made["components"] if each["type"] != "container"]  # what is in a base image is open
        silent = {each["name"] for each in parts if not each.get("licenses")}
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


@pytest.mark.parametrize("image", ["worker", "training", "triton"])
def test_every_image_names_its_base_and_the_digests_of_its_models(
    documents: dict[str, dict[str, Any]], image: str
) -> None:
    parts = {each["bom-ref"]: each for each in documents[image]["components"]}
    base = read_bases()[IMAGES[image][0]]
    assert parts[base.tagged]["type"] == "container"
    assert base.tag in parts[base.tagged]["purl"]
    models = [
        path for path in (CHECKOUT / "model_repo").rglob("*.pt") if path.parts[-3] in ("plant-pump", "beijing-air")
    ]
    assert len(models) >= 2
    for path in models:
        model = parts[str(path.relative_to(CHECKOUT))]
        assert model["type"] == "machine-learning-model"
        assert model["hashes"][0]["content"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_measurements_of_others_have_their_licence(documents: dict[str, dict[str, Any]]) -> None:
    for image in ("worker", "training", "triton"):
        licences = {
            each["name"]: each["licenses"][0]["license"]["id"]
            for each in documents[image]["components"]
            if each["name"].startswith("model_repo/")
        }
        data = {name for name, found in licences.items() if found == "CC-BY-4.0"}
        assert data == {"model_repo/beijing-air/warmup/values", "model_repo/beijing-air/warmup/observed"}
        assert "model_repo/NOTICE" in licences


def test_the_documents_of_triton_and_chart_list_every_file_of_ours(documents: dict[str, dict[str, Any]]) -> None:
    listed = {each["name"] for each in documents["triton"]["components"]}
    copied_files = {"deploy/images/triton/probe.py", "deploy/images/triton/serve"}
    assert copied_files <= listed
    chart = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "helm").rglob("*") if path.is_file()}
    assert {each["name"] for each in documents["chart"]["components"]} == chart
    assert not packages(documents["triton"])
    assert "pip" not in (CHECKOUT / "deploy" / "images" / "triton" / "Containerfile").read_text()  # it installs none


def test_invalid_document_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cyclonedx.validation.json.JsonStrictValidator.validate_str", lambda self, text: "no such field"
    )
    with pytest.raises(SbomInvalid, match="worker: no such field"):
        document(CONTENTS[0])
