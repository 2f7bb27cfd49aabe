"""`helm test` runs its pods under the same policy and deletes those that succeed."""

import pytest

from tests.cluster.release import Release

pytestmark = pytest.mark.timeout(300)


def test_test_pods_run_and_are_deleted(release: Release) -> None:
    release.install()
    hooks = [hook for hook in release.manifest(hooks=True) if hook["kind"] == "Pod"]
    run = release.helm("test", "--timeout", "60s")
    assert run.returncode == 0, run.stdout + run.stderr + release.events()
    assert run.stdout.count("Phase:          Succeeded") == len(hooks) >= 2
    names = {hook["metadata"]["name"] for hook in hooks}
    release.until(lambda: not names & {pod["metadata"]["name"] for pod in release.pods()}, "the test pods are deleted")
