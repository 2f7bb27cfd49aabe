"""The byte code in the worker's image is used, whatever the times of the files are.

Engines change them: buildah rounds them to seconds when it copies from one stage to another, and a release sets them to
the time of the commit. Python would then compile everything again at every start, because the root is read-only.
"""

import os
import re
import subprocess

import pytest
from packaging.utils import canonicalize_name

from deploy.licence_files import NAME, RULE
from deploy.sbom import CONTENTS, locked
from tests.deploy.build_steps import Image


@pytest.mark.slow  # quicker: test_images.py reads the same from the Containerfiles
@pytest.mark.timeout(300)  # includes the steps of the image
def test_nothing_is_compiled_at_the_start_after_times_have_changed(worker_image: Image) -> None:
    for path in [*worker_image.path("/opt").rglob("*.py"), *worker_image.path("/opt").rglob("*.pyc")]:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    python = worker_image.path("/opt/venv/bin/python")
    environment = worker_image.variables() | {"LANG": "C.UTF-8"}
    run = subprocess.run(
        [python, "-v", "-c", "import glaim_stream.worker.app, tritonclient.grpc.aio"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    # Python names the source that it has compiled, or, in quotes, the byte code that it has read.
    compiled = re.findall(r"^# code object from (/.*/opt/venv/.*)$", run.stderr, re.MULTILINE)
    read = re.findall(r"^# code object from '(/.*/opt/venv/.*)'$", run.stderr, re.MULTILINE)
    assert not compiled
    assert len(read) > 500


@pytest.mark.slow  # quicker: test_images.py reads the same from the Containerfiles
@pytest.mark.timeout(300)
def test_the_licences_of_all_packages_are_in_the_image(worker_image: Image) -> None:
    folder = worker_image.path("/opt/licenses")
    assert {path.name for path in folder.iterdir()} == {"LICENSE", "NOTICE", NAME}
    _, *parts = (folder / NAME).read_text().split(RULE)
    named = {canonicalize_name(part.split(maxsplit=1)[0]): part.split(maxsplit=2)[1] for part in parts}
    assert named == dict(locked(CONTENTS[0].lock))
    assert all(len(part) > 400 for part in parts)
