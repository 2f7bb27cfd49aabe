"""Only pinned and completely downloaded jars are on the class path of the broker."""

import hashlib
from pathlib import Path

import pytest

from deploy import kafka_artifacts
from deploy.errors import ChecksumMismatch, FetchError
from deploy.kafka_artifacts import Artifact, kafka_jars, read_artifacts

CONTENT = b"a jar"


class Repository:
    """A fake Maven repository that counts requests."""

    def __init__(self, content: bytes = CONTENT, error: Exception | None = None) -> None:
        self.content = content
        self.error = error
        self.requested: list[str] = []

    def __call__(self, artifact: Artifact, staging: Path) -> Path:
        self.requested.append(artifact.coordinate)
        if self.error is not None:
            raise self.error
        path = staging / f"{artifact.filename}.part"
        path.write_bytes(self.content)
        return path


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two pinned artifacts with the same content, and an empty cache."""
    monkeypatch.setenv("GLAIM_CACHE", str(tmp_path / "cache"))
    checksum = hashlib.sha256(CONTENT).hexdigest()
    path = tmp_path / "artifacts.txt"
    path.write_text(f"# a comment\norg.one:a:1.0 sha256:{checksum}\norg.two:a:1.0 sha256:{checksum}\n")
    return path


def serve(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(kafka_artifacts, "_download", repository)
    return repository


def test_every_line_of_the_pinned_list_is_read() -> None:
    artifacts = read_artifacts()
    assert len(artifacts) == 46
    assert len({artifact.filename for artifact in artifacts}) == 46
    assert "org.apache.kafka:kafka_2.13:4.3.1" in {artifact.coordinate for artifact in artifacts}


def test_line_without_a_checksum_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "artifacts.txt"
    path.write_text("org.one:a:1.0\n")
    with pytest.raises(FetchError, match=r"artifacts.txt, line 1: expected"):
        read_artifacts(path)


def test_jars_are_fetched_once_and_named_by_group(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = serve(Repository(), monkeypatch)
    jars = kafka_jars(artifacts_file=pinned)
    assert [jar.name for jar in jars] == ["org.one.a-1.0.jar", "org.two.a-1.0.jar"]
    assert [jar.read_bytes() for jar in jars] == [CONTENT, CONTENT]
    assert kafka_jars(artifacts_file=pinned) == jars
    assert len(repository.requested) == 2


def test_file_with_a_wrong_checksum_is_discarded(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(Repository(content=b"something else"), monkeypatch)
    with pytest.raises(ChecksumMismatch, match=r"org\.one:a:1\.0 has sha256"):
        kafka_jars(artifacts_file=pinned)
    assert list((pinned.parent / "cache").rglob("*.jar")) == []
    assert list((pinned.parent / "cache").rglob("*.part")) == []


def test_damaged_file_in_the_cache_is_rejected(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(Repository(), monkeypatch)
    damaged = kafka_jars(artifacts_file=pinned)[1]
    damaged.write_bytes(CONTENT[:-1])
    with pytest.raises(ChecksumMismatch, match=r"org\.two\.a-1\.0\.jar is not org\.two:a:1\.0 as pinned.*Delete"):
        kafka_jars(artifacts_file=pinned)


def test_unreachable_repository_is_a_failed_download(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real client with a closed port."""
    monkeypatch.setenv("GLAIM_MAVEN", "http://127.0.0.1:1/nothing")
    monkeypatch.setattr(kafka_artifacts, "_ATTEMPTS", 1)
    with pytest.raises(FetchError, match=r"could not fetch org\.(one|two):a:1\.0"):
        kafka_jars(artifacts_file=pinned)
