"""Check of an installed release."""

from tests.cluster.release import Release


def assert_complete(release: Release) -> None:
    """Every pod is Ready, and the API server accepts each object without unknown fields."""
    pods = release.pods()
    assert pods
    assert len(release.ready()) == len(pods), release.events()
    for thing in [*release.manifest(), *release.manifest(hooks=True)]:
        thing["metadata"].pop("name")
        thing["metadata"]["generateName"] = "checked-"
        release.api.create(thing, release.namespace, strict_dry_run=True)
