"""The worker's image, built by its own steps into a folder, once for every test that looks at it."""

from __future__ import annotations

import pytest

from deploy.cache import CHECKOUT
from tests.deploy.build_steps import Image, execute


@pytest.fixture(scope="session")
def worker_image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """What deploy/images/worker/Containerfile makes: a clean environment outside the checkout."""
    root = tmp_path_factory.mktemp("worker-image")
    return execute(CHECKOUT / "deploy" / "images" / "worker" / "Containerfile", root)
