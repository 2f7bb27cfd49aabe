"""Nothing unpinned and nothing half fetched ever reaches the broker's class path."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from deploy import kafka_artifacts
from deploy.errors import ChecksumMismatch, FetchError
from deploy.kafka_artifacts import Artifact, kafka_jars, read_artifacts

CONTENT = b"a jar"


class Repository:
    """Stands for the Maven repository; counts what it is asked for."""

    def __init__(self, content: bytes = CONTENT, error: Exception | None = None) -> None:
        self.content = content
        self.error = error
        self.asked: list[str] = []

    def __call__(self, artifact: Artifact, staging: Path) -> Path:
        self.asked.append(artifact.coordinate)
        if self.error is not None:
            raise self.error
        path = staging / f"{artifact.filename}.part"
        path.write_bytes(self.content)
        return path


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two pinned artifacts of the same content, and an empty cache."""
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


def test_the_pinned_list_names_no_host() -> None:
    assert "://" not in kafka_artifacts.ARTIFACTS.read_text()


def test_a_line_without_a_checksum_is_refused(tmp_path: Path) -> None:
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
    assert len(repository.asked) == 2


def test_progress_is_reported(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(Repository(), monkeypatch)
    lines: list[str] = []
    kafka_jars(lines.append, pinned)
    assert lines[0].startswith("Kafka: fetching 2 of 2 jars")
    assert lines[-1].startswith("Kafka: 2/2 jars")


def test_a_file_that_is_not_what_was_pinned_is_thrown_away(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(Repository(content=b"something else"), monkeypatch)
    with pytest.raises(ChecksumMismatch, match=r"org\.one:a:1\.0 came with sha256"):
        kafka_jars(artifacts_file=pinned)
    assert list((pinned.parent / "cache").rglob("*.jar")) == []
    assert list((pinned.parent / "cache").rglob("*.part")) == []


def test_a_damaged_file_of_the_cache_is_refused(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(Repository(), monkeypatch)
    damaged = kafka_jars(artifacts_file=pinned)[1]
    damaged.write_bytes(CONTENT[:-1])
    with pytest.raises(ChecksumMismatch, match=r"org\.two\.a-1\.0\.jar is not org\.two:a:1\.0 as pinned.*Delete"):
        kafka_jars(artifacts_file=pinned)


def test_a_failed_download_says_which_and_what_to_do(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(Repository(error=OSError("no route")), monkeypatch)
    with pytest.raises(FetchError, match=r"could not fetch org\.one:a:1\.0.*no route.*HTTPS_PROXY.*GLAIM_MAVEN"):
        kafka_jars(artifacts_file=pinned)


def test_a_repository_that_does_not_answer_is_a_failed_download(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real client, against a port where nobody listens."""
    monkeypatch.setenv("GLAIM_MAVEN", "http://127.0.0.1:1/nothing")
    monkeypatch.setattr(kafka_artifacts, "_ATTEMPTS", 1)
    with pytest.raises(FetchError, match=r"could not fetch org\.(one|two):a:1\.0"):
        kafka_jars(artifacts_file=pinned)
