"""TLS, mutual TLS, SCRAM and OAUTHBEARER at a real broker: refusals as sentences, and files that change."""

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from deploy.kafka import QUICK_START, Listener, LocalKafka
from deploy.ports import choose_port
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings, read_settings
from glaim_stream.feed import plant_source, produce
from glaim_stream.feed.plant import START_MS
from glaim_stream.kafka import connected_admin, kafka_options, topics
from glaim_stream.operate.check import Grade
from glaim_stream.operate.check.broker import kafka_findings
from tests.certificates import MountedSecret, Pair, signed
from tests.integration.worker_process import WorkerProcess, call_command, plant_settings, wait_until_committed

pytestmark = pytest.mark.slow  # quicker: tests/core/test_tls.py, tests/kafka/test_connection.py and test_passwords.py

OLD, NEW = signed("old authority"), signed("new authority")
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class SecuredKafka:
    """A broker with a listener for client certificates and one for logins, and the files of its certificate."""

    def __init__(self, folder: Path) -> None:
        self.files = MountedSecret(folder / "broker", self.files_by(OLD))
        self.certificates = Listener("CERTIFICATES", "SSL", choose_port())
        self.logins = Listener("LOGINS", "SASL_SSL", choose_port())
        login = "listener.name.logins"
        self.kafka = LocalKafka(
            jvm_options=QUICK_START,
            listeners=[self.certificates, self.logins],
            properties={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.files / "broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.files / "ca.pem"),
                "listener.name.certificates.ssl.client.auth": "required",
                f"{login}.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
                f"{login}.scram-sha-512.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                ),
                f"{login}.oauthbearer.sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="broker";',
            },
        )

    @staticmethod
    def files_by(authority: Pair, **certificate: Any) -> dict[str, bytes]:
        pair = signed("broker", authority, **certificate)
        return {"broker.pem": pair.key_pem() + pair.certificate_pem, "ca.pem": authority.certificate_pem}

    @property
    def plain(self) -> str:
        return self.kafka.bootstrap_servers


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    broker = SecuredKafka(tmp_path_factory.mktemp("secured"))
    with broker.kafka:
        yield broker


def client_files(folder: Path, pair: Pair | None = None, authority: Pair = OLD) -> MountedSecret:
    return MountedSecret(folder, contents(pair or signed("worker", OLD), authority))


def contents(pair: Pair, authority: Pair) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem(), "ca.crt": authority.certificate_pem}


def by_certificate(files: MountedSecret) -> dict[str, object]:
    return {
        "security_protocol": "SSL",
        "ssl_ca_file": files / "ca.crt",
        "ssl_cert_file": files / "tls.crt",
        "ssl_key_file": files / "tls.key",
    }


def by_login(files: MountedSecret, mechanism: str, **more: object) -> dict[str, object]:
    return {"security_protocol": "SASL_SSL", "ssl_ca_file": files / "ca.crt", "sasl_mechanism": mechanism, **more}


def token(subject: str, *, lives_s: float) -> str:
    """An unsigned JWT, which a broker without further settings accepts."""
    now_s = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now_s - 100, "exp": now_s + lives_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def set_password(secured: SecuredKafka, user: str, password: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=secured.plain)
    try:
        alteration = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, password.encode())
        assert admin.alter_user_scram_credentials([alteration]) == {user: None}
    finally:
        admin.close()


def refusal(settings: Settings) -> str:
    """The sentence of a check, which must be the one that a worker ends with at its start."""
    (finding,) = kafka_findings(settings, None)
    assert finding.outcome is Grade.FAILED
    with pytest.raises(SettingsError) as error, connected_admin(settings):
        pass
    assert str(error.value) in str(finding)
    return str(finding)


def test_certificates_that_are_refused_are_sentences(
    secured: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_BOOTSTRAP_TIMEOUT_MS", 1_000)
    good = by_certificate(client_files(tmp_path / "good"))
    address = secured.certificates.address
    with connected_admin(read_settings(kafka=address, **good)) as admin:
        assert admin.describe_cluster()["brokers"]

    foreign = client_files(tmp_path / "foreign", signed("worker", signed("foreign authority")))
    expired = client_files(tmp_path / "expired", signed("worker", OLD, days=-1))
    distrusting = client_files(tmp_path / "distrusting", authority=NEW)
    without = {key: value for key, value in good.items() if key in ("security_protocol", "ssl_ca_file")}
    for given, sentence in (
        (by_certificate(foreign), f"found {address}: it refuses the client certificate"),
        (by_certificate(expired), f"{expired / 'tls.crt'}: expected a valid certificate, found one that expired on"),
        (by_certificate(distrusting), f"found {address}: its certificate is not trusted"),
        (without, f"found {address}: it refuses the client certificate, or requires one"),
        ({}, f"{address} requires TLS, and GLAIM_SECURITY_PROTOCOL is PLAINTEXT"),
    ):
        assert sentence in refusal(read_settings(kafka=address, **given))
    assert "as a server without TLS does" in refusal(read_settings(kafka=secured.plain, **good))
    told = call_command(plant_settings(address, "none-", **without), "tail", "--from-beginning", "--limit", "1")
    assert told.returncode != 0
    assert "it refuses the client certificate, or requires one" in told.stderr
    assert "Traceback" not in told.stderr
    named = address.replace("127.0.0.1", "localhost")
    assert f"found {named}: its certificate is for other names" in refusal(read_settings(kafka=named, **good))


def test_logins_that_are_refused_are_sentences(
    secured: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_BOOTSTRAP_TIMEOUT_MS", 1_000)
    set_password(secured, "ada", "right")
    files = client_files(tmp_path / "files")
    good, expired, right, wrong = (tmp_path / name for name in ("good", "expired", "right", "wrong"))
    right.write_text("right")
    wrong.write_text("wrong")
    good.write_text(token("ada", lives_s=600))
    expired.write_text(token("ada", lives_s=-10))
    address = secured.logins.address

    def settings(mechanism: str, **more: object) -> Settings:
        return read_settings(kafka=address, **by_login(files, mechanism, **more))

    for accepted in (
        settings("SCRAM-SHA-512", sasl_username="ada", sasl_secret_file=right),
        settings("OAUTHBEARER", sasl_secret_file=good),
    ):
        with connected_admin(accepted) as admin:
            assert admin.describe_cluster()["brokers"]
    without, absent = "GLAIM_SASL_SECRET_FILE: expected a file with the password or the token", tmp_path / "absent"
    by_wrong = settings("SCRAM-SHA-512", sasl_username="ada", sasl_secret_file=wrong)
    for refused, sentence in (
        (
            by_wrong,
            "it refuses user ada by SCRAM-SHA-512",
        ),
        (settings("SCRAM-SHA-256", sasl_username="ada", sasl_secret_file=right), "it does not offer SCRAM-SHA-256"),
        (settings("OAUTHBEARER", sasl_secret_file=expired), f"it refuses the token by OAUTHBEARER: {expired} has"),
        (settings("OAUTHBEARER"), without),
        (settings("OAUTHBEARER", sasl_secret_file=absent), f"{absent}: expected a file with a secret"),
        (settings("SCRAM-SHA-512", sasl_username="ada"), without),
    ):
        assert sentence in refusal(refused)


async def test_a_living_client_logs_in_with_a_changed_password(
    secured: SecuredKafka, tmp_path: Path, topic_prefix: str
) -> None:
    password = tmp_path / "password"
    password.write_text("first\n")
    set_password(secured, "bob", "first")
    files = client_files(tmp_path / "files")
    login = by_login(files, "SCRAM-SHA-512", sasl_username="bob", sasl_secret_file=password)

    async def change(value: str, *, known: bool) -> None:
        password.write_text(value)
        if known:
            await asyncio.to_thread(set_password, secured, "bob", value)

    await send_over_reconnections(secured, topic_prefix, login, change)


async def test_a_living_client_logs_in_with_a_changed_token(
    secured: SecuredKafka, tmp_path: Path, topic_prefix: str
) -> None:
    file = tmp_path / "token"
    file.write_text(token("bob", lives_s=600))
    login = by_login(client_files(tmp_path / "files"), "OAUTHBEARER", sasl_secret_file=file)

    async def change(_: str, *, known: bool) -> None:
        file.write_text(token("bob", lives_s=600 if known else -10))

    await send_over_reconnections(secured, topic_prefix, login, change)


async def send_over_reconnections(
    secured: SecuredKafka, topic: str, login: dict[str, object], change: Callable[..., Awaitable[None]]
) -> None:
    """Send by one producer, whose connections are cut after each change of its secret: refused, then accepted."""
    admin = KafkaAdminClient(bootstrap_servers=secured.plain)
    await asyncio.to_thread(admin.create_topics, {topic: {"num_partitions": 1, "replication_factor": 1}})
    admin.close()
    settings = read_settings(kafka=secured.logins.address, **login)
    async with AIOKafkaProducer(**kafka_options(settings), request_timeout_ms=3_000) as producer:
        await producer.send_and_wait(topic, b"1")
        await change("second", known=False)
        cut(producer)
        with pytest.raises(KafkaError):
            await producer.send_and_wait(topic, b"lost")
        await change("third", known=True)
        cut(producer)
        await producer.send_and_wait(topic, b"2")


def cut(producer: AIOKafkaProducer) -> None:
    for connection in list(producer.client._conns.values()):
        connection.close()


def test_a_worker_follows_its_files_to_a_new_authority(tmp_path: Path, topic_prefix: str) -> None:
    """The broker comes back with another authority; the same process goes on with its replaced files."""
    secured = SecuredKafka(tmp_path)
    files = client_files(tmp_path / "files")
    with secured.kafka:
        inside = plant_settings(secured.plain, topic_prefix, partitions=2, imputer="interpolation")
        settings = plant_settings(
            secured.certificates.address,
            topic_prefix,
            partitions=2,
            imputer="interpolation",
            delivery="exactly_once",
            **by_certificate(files),
        )
        with WorkerProcess(settings, tmp_path / "worker.log") as worker:
            assert produce(inside, plant_source(0.05, groups=4)).failed_messages == 0
            wait_until_committed(inside)
            new = signed("worker", NEW)
            files.replace(contents(new, NEW) | {"tls.key": signed("other", NEW).key_pem()})
            time.sleep(0.2)  # as long as the files do not fit each other
            files.replace(contents(new, NEW))
            secured.files.replace(secured.files_by(NEW))
            secured.kafka.restart()
            later_ms = START_MS + 86_400_000
            assert produce(inside, plant_source(0.05, groups=4, start_ms=later_ms)).failed_messages == 0
            wait_until_committed(inside)
            assert worker.running
            assert worker.starts == 1
            assert worker.stop() == 0
    log = (tmp_path / "worker.log").read_text()
    assert "kafka: the TLS files changed and were read again, certificate until" in log
    assert "Traceback" not in log
