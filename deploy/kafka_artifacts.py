"""Downloads the broker's jars with pinned coordinates and checksums, in pure Python without Maven or Java."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deploy.cache import Report, cache_dir, exclusive, file_sha256
from deploy.errors import ChecksumMismatch, FetchError

ARTIFACTS = Path(__file__).with_name("kafka-artifacts.txt")

_PARALLEL_DOWNLOADS = 4
_ATTEMPTS = 3


@dataclass(frozen=True)
class Artifact:
    """One jar of the broker's class path."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """The Maven coordinate."""
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def filename(self) -> str:
        """The file name; it contains the group so that equal names of two groups do not collide."""
        return f"{self.group}.{self.name}-{self.version}.jar"


def read_artifacts(path: Path = ARTIFACTS) -> list[Artifact]:
    """The pinned jars.

    Raises:
        FetchError: A line is not `group:name:version sha256:<64 hex digits>`.
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
    """The broker's class path, downloaded if necessary and verified against the pinned checksums on every call.

    Verifying 45 MB takes 0.1 s, less than it takes to debug a broker with a truncated jar.

    Raises:
        FetchError: A download failed; the message names the coordinate and possible remedies.
        ChecksumMismatch: A downloaded or cached file does not match its pinned checksum.
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
    """Download one jar into the staging directory, verify it and move it into place, so existing jars are complete."""
    try:
        downloaded = _download(artifact, staging)
    except Exception as error:
        raise FetchError(
            f"could not fetch {artifact.coordinate} from the Maven repository: {error}. Try again; behind a proxy set "
            "HTTPS_PROXY (and REQUESTS_CA_BUNDLE for its certificate); to use a mirror set GLAIM_MAVEN to its address. "
            "Completed downloads are kept"
        ) from error
    found = file_sha256(downloaded)
    if found != artifact.sha256:
        raise ChecksumMismatch(
            f"{artifact.coordinate} has sha256 {found}, expected {artifact.sha256}: the file was discarded. "
            "A proxy changes files from the Maven repository, or a mirror has a different build"
        )
    target = jars / artifact.filename
    downloaded.replace(target)
    return target


def _download(artifact: Artifact, staging: Path) -> Path:
    # Imported here because jgo is not needed once the jars are cached, or with another Kafka.
    from jgo.maven import MavenContext

    mirror = os.environ.get("GLAIM_MAVEN")
    for attempt in range(1, _ATTEMPTS + 1):
        # Each attempt gets a separate cache: jgo writes in place and would accept a truncated file.
        cache = staging / f"{artifact.filename}-{attempt}"
        context = MavenContext(repo_cache=cache, remote_repos={"mirror": mirror} if mirror else None, timeout=60)
        try:
            component = context.project(artifact.group, artifact.name).at_version(artifact.version)
            return Path(component.artifact().resolve())
        except Exception:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(attempt)
    raise AssertionError("unreachable")
