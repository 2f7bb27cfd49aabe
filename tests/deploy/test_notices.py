"""The third-party notices name every locked package with an accepted licence and its text."""

import platform
import sys
from typing import Any

import pytest

from deploy.cache import CHECKOUT
from deploy.licence_files import RULE
from deploy.licences import LicenceRefused, licence, read_policy, texts
from deploy.notices import notices, others
from deploy.sbom import CONTENTS, Content, locked

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the metadata of CUDA's packages is not installed here",
)
each_image = pytest.mark.parametrize("content", CONTENTS, ids=lambda content: content.image)


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """By image, and of the chart: the notices, three seconds for each image whose packages are read."""
    return {each.image: notices(each) for each in CONTENTS} | others()


def version_of(package: str) -> str:
    return dict(locked(CONTENTS[1].lock))[package]


@pytest.mark.slow  # quicker: the licences of single packages, below
@each_image
def test_notices_have_every_locked_package_with_its_text(made: dict[str, str], content: Content) -> None:
    parts = made[content.image].split(RULE)[1:]
    headings = [part.strip().splitlines()[0] for part in parts]
    assert [heading.partition(":")[0] for heading in headings] == [" ".join(each) for each in locked(content.lock)]
    for heading, part in zip(headings, parts, strict=True):
        assert heading.partition(": ")[2], heading
        assert len(part) > 400, f"{heading}: expected the text of a licence"


@pytest.mark.parametrize("package", ["numpy", "tqdm", "venusian", "nvidia-cublas-cu12"])
def test_a_licence_that_the_policy_does_not_accept_is_refused(package: str) -> None:
    policy: dict[str, Any] = read_policy() | {"accepted": ["0BSD"], "packages": {}}
    with pytest.raises(LicenceRefused, match=f"expected {package} .* under licences that licences.toml accepts, found"):
        licence(package, version_of(package), policy)


def test_an_argued_licence_is_accepted_for_its_package_alone() -> None:
    policy = read_policy()
    assert licence("tqdm", version_of("tqdm"), policy) == "MPL-2.0 AND MIT"
    policy["packages"] = {"tqdm": {"licence": "MIT", "reason": "another"}}
    with pytest.raises(LicenceRefused, match=r"MPL-2\.0"):
        licence("tqdm", version_of("tqdm"), policy)


@pytest.mark.slow  # quicker: an argued licence, above
def test_a_wrong_licence_in_the_metadata_is_corrected(made: dict[str, str]) -> None:
    """The metadata say BSD, the licence file is NVIDIA's: source of the correction in licences.toml."""
    policy, name = read_policy(), "nvidia-nvshmem-cu12"
    ((_, text),) = texts(name, version_of(name))
    assert text.startswith("End User License Agreement")
    assert "CUDA Toolkit" in text
    assert "BSD" not in text.split("\n\n", 1)[0]
    assert licence(name, version_of(name), policy) == "LicenseRef-NVIDIA-Proprietary"
    assert "nvidia-nvshmem-cu12 3.3.20: LicenseRef-NVIDIA-Proprietary" in made["training"]
    del policy["packages"][name]["stated"]
    assert licence(name, version_of(name), policy) == "BSD-3-Clause", "an entry corrects what it expects alone"


@pytest.mark.slow  # quicker: the licences of the measurements in test_sbom.py
@pytest.mark.parametrize("name", ["worker", "training", "triton"])
def test_every_image_names_the_source_of_the_data_in_its_models(made: dict[str, str], name: str) -> None:
    assert set(made) == {"worker", "training", "triton", "chart"}
    for part in ("Chen, S. (2017)", "10.24432/C5RK5G", "CC BY 4.0", "Changes: "):
        assert part in made[name]
        assert part in (CHECKOUT / "model_repo" / "NOTICE").read_text()


def test_a_version_that_is_not_installed_is_refused() -> None:
    with pytest.raises(LicenceRefused, match=r"expected the licence of numpy 0\.0\.1, found another version"):
        licence("numpy", "0.0.1", read_policy())


def test_every_entry_of_the_policy_is_used_and_argued() -> None:
    policy = read_policy()
    packages = {package for content in CONTENTS for package, _ in locked(content.lock)}
    for pattern, argued in policy["packages"].items():
        assert len(argued["reason"]) > 20
        assert any(package.startswith(pattern.rstrip("*")) for package in packages), f"no package is called {pattern}"
