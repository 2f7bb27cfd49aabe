"""Brings the broker's jars: pinned coordinates, pinned checksums, pure Python, no Maven and no Java."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deploy.cache import cache_dir, exclusive, file_sha256
from deploy.errors import ChecksumMismatch, FetchError

ARTIFACTS = Path(__file__).with_name("kafka-artifacts.txt")

Report = Callable[[str], None]

_PARALLEL_DOWNLOADS = 4
_ATTEMPTS = 3


@dataclass(frozen=True)
class Artifact:
    """One jar of the class path."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """Maven's way to write it."""
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def filename(self) -> str:
        """With the group, so that equal names of two groups cannot meet in one directory."""
        return f"{self.group}.{self.name}-{self.version}.jar"


def read_artifacts(path: Path = ARTIFACTS) -> list[Artifact]:
    """The pinned jars.

    Raises:
        FetchError: If a line is not `group:name:version sha256:<64 hex digits>`.
    """
    artifacts = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        coordinate, _, checksum = line.partition(" sha256:")
        parts = coordinate.split(":")
        if len(parts) != 3 or len(checksum) != 64:
            raise FetchError(f"{path.name}, line {number}: expected `group:name:version sha256:<hex>`, found {line!r}")
        group, name, version = parts
        artifacts.append(Artifact(group, name, version, checksum))
    return artifacts


def kafka_jars(report: Report = print, artifacts_file: Path = ARTIFACTS) -> list[Path]:
    """The broker's class path, fetched if need be and checked against the pinned checksums every time.

    Checking 45 MB takes 0.1 s, less than finding out what a truncated jar does to a broker.

    Raises:
        FetchError: Names the coordinate that did not come and what can be done.
        ChecksumMismatch: If what came, or what lies in the cache, is not what was pinned.
    """
    artifacts = read_artifacts(artifacts_file)
    jars = cache_dir() / "kafka" / "jars"
    with exclusive(cache_dir() / "kafka" / ".lock"):
        jars.mkdir(exist_ok=True)
        missing = [artifact for artifact in artifacts if not (jars / artifact.filename).exists()]
        if missing:
            _fetch_all(missing, jars, len(artifacts), report)
        for artifact in artifacts:
            path = jars / artifact.filename
            found = file_sha256(path)
            if found != artifact.sha256:
                raise ChecksumMismatch(
                    f"{path} is not {artifact.coordinate} as pinned: sha256 {found}, expected {artifact.sha256}. "
                    "Delete the file to fetch it again"
                )
    return [jars / artifact.filename for artifact in artifacts]


def _fetch_all(missing: list[Artifact], jars: Path, total: int, report: Report) -> None:
    started = time.monotonic()
    report(f"Kafka: fetching {len(missing)} of {total} jars into {jars}")
    staging = Path(tempfile.mkdtemp(prefix="staging-", dir=jars.parent))
    try:
        with ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
            size_bytes = 0
            fetched = pool.map(lambda artifact: _fetch(artifact, staging, jars), missing)
            for done, path in enumerate(fetched, start=1):
                size_bytes += path.stat().st_size
                if done % 10 == 0 or done == len(missing):
                    elapsed_s = time.monotonic() - started
                    report(f"Kafka: {done}/{len(missing)} jars, {size_bytes / 1e6:.0f} MB in {elapsed_s:.1f} s")
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fetch(artifact: Artifact, staging: Path, jars: Path) -> Path:
    """Download one jar beside its place, check it, and move it there: a jar that exists is whole."""
    try:
        downloaded = _download(artifact, staging)
    except Exception as error:
        raise FetchError(
            f"could not fetch {artifact.coordinate} from the Maven repository: {error}. Try again; behind a proxy set "
            "HTTPS_PROXY (and REQUESTS_CA_BUNDLE for its certificate); with a mirror of your own set GLAIM_MAVEN to "
            "its address. What has come already is kept"
        ) from error
    found = file_sha256(downloaded)
    if found != artifact.sha256:
        raise ChecksumMismatch(
            f"{artifact.coordinate} came with sha256 {found}, expected {artifact.sha256}: it was thrown away. "
            "Something between here and the Maven repository changes files, or a mirror carries a different build"
        )
    target = jars / artifact.filename
    downloaded.replace(target)
    return target


def _download(artifact: Artifact, staging: Path) -> Path:
    # Imported here: nobody who has the jars, or another Kafka, needs jgo.
    from jgo.maven import MavenContext

    mirror = os.environ.get("GLAIM_MAVEN")
    for attempt in range(1, _ATTEMPTS + 1):
        # A cache of its own for each attempt: jgo writes in place and would take a truncated file for a good one.
        own = staging / f"{artifact.filename}-{attempt}"
        context = MavenContext(repo_cache=own, remote_repos={"mirror": mirror} if mirror else None, timeout=60)
        try:
            component = context.project(artifact.group, artifact.name).at_version(artifact.version)
            return Path(component.artifact().resolve())
        except Exception:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(attempt)
    raise AssertionError("unreachable")
