"""A fixture with the worker's image, built by its steps into a folder, once for all tests."""

import pytest

from deploy.cache import CHECKOUT
from tests.deploy.build_steps import Image, execute


@pytest.fixture(scope="session")
def worker_image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The result of deploy/images/worker/Containerfile: a clean environment outside the checkout."""
    root = tmp_path_factory.mktemp("worker-image")
    return execute(CHECKOUT / "deploy" / "images" / "worker" / "Containerfile", root)
