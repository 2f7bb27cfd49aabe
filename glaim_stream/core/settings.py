"""All settings of the worker and its tools, read from environment variables with the prefix `GLAIM_`.

The settings needed daily are also flags of `glaim-stream worker`. Each description gives the unit and what gets worse
in each direction.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError as UnreadableSource

from glaim_stream.core.budget import DEFAULT, Budget
from glaim_stream.core.choices import LogLevel
from glaim_stream.core.errors import ModelError, SettingsError
from glaim_stream.core.gone_settings import gone_settings
from glaim_stream.core.kafka_extra import why_refused
from glaim_stream.core.registry import IMPUTERS
from glaim_stream.core.tls import TlsFiles
from glaim_stream.core.trust import PublicKey, Trust
from glaim_stream.core.validation import problems_of

_ADDRESS = re.compile(r"(\w+://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+)(:\d{1,5})?")
_PAGE = re.compile(r"(([^\s:/,\[\]]+|\[[0-9A-Fa-f:.]+\]):)?\d{1,5}")
TLS_SCHEME = "grpcs://"
NETWORKS, WITHOUT_NETWORK = ("triton", "local"), ("gaussian", "interpolation", "last_value")  # our imputers
PROBED_SHARE = 0.05  # share of the groups at a step, beside a network
DEAD_LETTER_SUFFIX, LATE_SUFFIX, OUTAGE_SUFFIX = "-dlq", "-late", "-outages"


class Settings(BaseSettings):
    """Settings of the worker and its tools."""

    model_config = SettingsConfigDict(env_prefix="GLAIM_", frozen=True, extra="forbid")

    kafka: str = Field(default="localhost:9092", description="bootstrap servers, host:port, separated by commas")
    input_topic: str = Field(default="sensor-readings", description="topic of the readings")
    output_topic: str = Field(default="imputed-readings", description="topic of the filled rows")
    topic_names: dict[Literal["dead_letters", "late", "outages"], Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="other names of the topics beside the input and the output. dead_letters: records that cannot be "
        "used, by default the input topic with the suffix -dlq. late: readings older than the window, the input topic "
        "with -late. outages: groups that go dark or send again, the output topic with -outages",
    )
    quality_topic: str = Field(
        default="",
        description="compacted topic for the live accuracy of each group, such as imputation-quality; one for each "
        "output topic. Empty: none is published. With one, a rebuild reads half a window more, and the worker's user "
        "needs rights on one topic more. It needs score_share above 0",
    )
    health_topic: str = Field(
        default="",
        description="topic for sensors that begin or cease to be faulty, such as sensor-health; one for each output "
        "topic. Empty: their health is not judged. It is judged where the closed form has habits of the sensors, as "
        "`learn` and `training.fit` write them. With one, the worker's user needs rights on one topic more",
    )
    consumer_group: str = Field(default="glaim-stream", description="Kafka's consumer group")
    instance_id: str | None = Field(
        default=None,
        description="static membership: a name that the worker keeps across restarts, so that a restart within "
        "Kafka's session timeout moves no partition; unique among workers",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT",
        description="how Kafka is called. SSL: TLS; SASL: with a login. PLAINTEXT crosses the network unencrypted",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="PLAIN", description="how a login is proven; OAUTHBEARER takes a token instead of a password"
    )
    sasl_username: str | None = Field(default=None, description="user of the login")
    sasl_secret_file: Path | None = Field(
        default=None,
        description="file with the password of the login, or the token of OAUTHBEARER, such as a projected service "
        "account token; it is read again when it changes",
    )
    ssl_ca_file: Path | None = Field(
        default=None,
        description="PEM of certificate authorities; default: those of the system. This and the next two are read "
        "again when they change",
    )
    ssl_cert_file: Path | None = Field(
        default=None, description="PEM of the client certificate, for brokers that require one"
    )
    ssl_key_file: Path | None = Field(
        default=None, description="PEM of the client certificate's key, without a password"
    )
    kafka_extra: dict[str, bool | int | float | str] = Field(
        default={},
        description="options that the Kafka clients take as they are, a JSON object such as "
        '{"session_timeout_ms": 45000, "linger_ms": 20, "compression_type": "lz4"}; each client takes those that it '
        "knows. auto_commit_interval_ms is the time between commits. An option that would break delivery is refused",
    )

    catalogue: Path = Field(default=Path("groups.yaml"), description="file that lists the groups and their models")
    model_repository: Path = Field(default=Path("model_repo"), description="folder with the models' contracts")
    manifest_key: str = Field(
        default="",
        description="public key of minisign, one line of base64: use no model version without a manifest that it "
        "has signed. Empty: neither is demanded, and who can write to the repository decides what runs",
    )
    model_operators: str = Field(
        default="",
        description="operators that the TorchScript of a model may use in addition, separated by commas, such as "
        "aten::fft_rfft. Each one more is code of torch that whoever makes a model can call",
    )
    imputer: str = Field(
        default="triton",
        description="first rung of the ladder: triton, local, gaussian, interpolation, last_value, or one that an "
        "installed package registers. local: TorchScript in the worker. gaussian: the closed form in the "
        "model's folder, without a network; beside triton and local, and with score_share, it is an expert of the "
        "blend, else a rung",
    )
    triton: str = Field(
        default="localhost:8001",
        description="host:port of Triton's gRPC endpoint. grpcs://host:port calls it by TLS; without it values and "
        "tokens cross the network unencrypted",
    )
    triton_ca_file: Path | None = Field(
        default=None,
        description="PEM of the authorities of Triton's certificate; default: those of gRPC. This and the next three "
        "are read again when they change",
    )
    triton_cert_file: Path | None = Field(
        default=None, description="PEM of the client certificate, for a Triton that requires one"
    )
    triton_key_file: Path | None = Field(default=None, description="PEM of that certificate's key, without a password")
    triton_token_file: Path | None = Field(
        default=None, description="file with a token that is sent with every call to Triton; needs grpcs:// in triton"
    )
    triton_token_header: str = Field(
        default="authorization",
        pattern=r"^[a-z0-9_.-]+$",
        description="header of the token. authorization: the token follows the word Bearer, as proxies and gateways "
        "expect. Any other: the token alone, such as triton-grpc-protocol-KEY for a Triton with "
        "--grpc-restricted-protocol=inference:KEY=TOKEN",
    )
    triton_deadline_s: float = Field(
        default=5.0,
        gt=0,
        description="seconds for one call with its retries; longer survives restarts of Triton but delays output, "
        "shorter falls back to interpolation",
    )
    triton_batch: int = Field(
        default=64,
        ge=1,
        description="maximum windows per call; more windows use the accelerator better but wait longer",
    )
    triton_fixed_batch: bool = Field(
        default=False,
        description="pad every call to triton_batch windows, so that a window's values do not depend on the other "
        "windows of the call, to the byte; a small call then costs as much as a full one. triton_batch must be a power "
        "of two and equal to Triton's max_batch_size",
    )

    score_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of the groups observed at a step whose known values are also hidden and imputed, at most 32 "
        "windows per model, and up to 8 more whose gaps are copied from recent holes; model, closed form and baseline "
        "are blended according to these errors, and intervals widen and narrow by them, so that they hold the truth in "
        "90 % of the cases also after a drift. A larger share means more calls to the model but follows a drift "
        "sooner; 0 disables the blend, live accuracy and these intervals: they are then those of the contract and the "
        "closed form, and interpolated values have none. Default: 0.05 with triton and local, and 0 with gaussian, "
        "which would take up to three times as long",
    )

    record_mb: int = Field(
        default=32,
        ge=1,
        description="megabytes of the largest record and of what one partition decodes at once; all limits of its "
        "memory follow. N admits N MB of one Arrow record once decompressed, N/8 MB of a JSON record, and 7,812 N "
        "readings of either; a larger record is a dead letter with the cause too-large. N MiB is the most that a "
        "compressed batch of Kafka may unpack to, and N/4 MB of rows wait before they are published. More admits "
        "larger records and batches, but also larger compression bombs, and pauses other partitions for longer",
    )
    partition_groups: int = Field(
        default=DEFAULT.groups,
        ge=1,
        description="groups with windows in one partition; readings of a further group are dead letters with the cause "
        "too-many-groups until one has been silent for a window. More admits more groups at 1.6 to 3.1 kB per sensor, "
        "but also more names that a producer makes up under a pattern",
    )
    dead_letter_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="share of the input records that are expected to be dead letters, in whole or in part. A higher "
        "share is logged once a minute, shown on the page and in /health, and fails check. Raise it for a topic that "
        "carries foreign records by design",
    )
    delivery: Literal["at_least_once", "exactly_once"] = Field(
        default="exactly_once",
        description="exactly_once: rows, letters and offsets commit in one transaction for each partition, so that "
        "readers of committed records see every row once. at_least_once: less delay and no rights on transactional "
        "ids, but after a crash the rows since the last commit are published again, and a worker that was paused may "
        "publish estimates for readings that its successor has observed",
    )
    max_message_bytes: int = Field(default=1_000_000, ge=10_000, description="largest message that the broker accepts")
    partitions: int = Field(default=4, ge=1, description="partitions of topics that the worker creates")
    replication_factor: int = Field(default=1, ge=1, description="replicas of topics that the worker creates")
    metrics_port: int = Field(
        default=9464, ge=0, le=65535, description="HTTP port of /metrics and /health; 0 chooses a free port"
    )
    metrics_host: str = Field(default="0.0.0.0", description="address to listen on; scrapers run on other hosts")  # noqa: S104
    metrics_tls_cert: Path | None = Field(
        default=None,
        description="PEM of the certificate with which /metrics and /health are served by TLS, and by it alone; none: "
        "HTTP. This and the next two are read again when they change",
    )
    metrics_tls_key: Path | None = Field(default=None, description="PEM of that certificate's key, without a password")
    metrics_tls_client_ca: Path | None = Field(
        default=None,
        description="PEM of the authorities of the scrapers' certificates; with it /metrics is refused to clients that "
        "show none. /health is not, because the kubelet's probes have none",
    )
    page: str = Field(
        default="",
        description="where the page listens that shows the groups while they are filled: a port of 127.0.0.1, or "
        "host:port; empty: no page; port 0 chooses a free one. Beyond this machine it needs page_token_file, and "
        "something in front of it that speaks TLS",
    )
    page_token_file: Path | None = Field(
        default=None,
        validate_default=True,
        description="file with the token that a viewer of the page must know, at least 16 characters; it is read at "
        "the start. Without it requests by other names than localhost and addresses are refused",
    )
    log_level: LogLevel = Field(
        default="info",
        description="least severity that is logged; debug also logs what Faust and the Kafka client do inside",
    )

    @field_validator("imputer")
    @classmethod
    def _imputer_is_registered(cls, name: str) -> str:
        if name not in IMPUTERS:
            raise ValueError(f"expected {', '.join(IMPUTERS.names)}, found {name!r}")
        return name

    @field_validator("triton_fixed_batch")
    @classmethod
    def _batch_can_be_fixed(cls, fixed: bool, info: ValidationInfo) -> bool:
        # At other sizes a window's last bits also depend on its place in the batch, because kernels treat the rest that
        # does not fill a tile differently. Measured on the shipped models: stable at powers of two from 8 to 256, not
        # at 40, 48, 56 and 61.
        batch = info.data.get("triton_batch", 0)
        if fixed and batch & (batch - 1):
            raise ValueError(f"a fixed batch needs triton_batch to be a power of two, found {batch}")
        return fixed

    @field_validator("kafka", "triton")
    @classmethod
    def _addresses_are_addresses(cls, text: str, info: ValidationInfo) -> str:
        found = text.split(",") if info.field_name == "kafka" else [text.removeprefix(TLS_SCHEME)]
        if not all(_ADDRESS.fullmatch(each.strip()) for each in found):
            raise ValueError(f"expected {'host:port, separated by commas' if len(found) > 1 else 'host:port'}")
        return text

    @field_validator("ssl_key_file", "triton_key_file", "metrics_tls_key")
    @classmethod
    def _certificate_has_its_key(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        name = str(info.field_name)
        certificate = name.replace("key", "cert")
        if (key is None) != (info.data.get(certificate) is None):
            raise ValueError(f"a certificate and its key go together, {certificate} and {name}")
        return key

    @field_validator("manifest_key")
    @classmethod
    def _key_is_a_key(cls, text: str) -> str:
        try:
            if text:
                PublicKey.parse(text)
        except ModelError as error:
            raise ValueError(str(error)) from error
        return text

    @field_validator("metrics_tls_client_ca")
    @classmethod
    def _scrapers_are_asked_by_tls(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None and info.data.get("metrics_tls_cert") is None:
            raise ValueError(
                "it needs metrics_tls_cert and metrics_tls_key: without TLS no scraper shows a certificate"
            )
        return file

    @property
    def trust(self) -> Trust:
        """Requirements that a model version must meet before it is used."""
        key = PublicKey.parse(self.manifest_key) if self.manifest_key else None
        operators = frozenset(name.strip() for name in self.model_operators.split(",") if name.strip())
        return Trust(key is not None, key, operators)

    @field_validator("triton_ca_file", "triton_cert_file", "triton_token_file")
    @classmethod
    def _needs_tls(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None and not info.data.get("triton", "").startswith(TLS_SCHEME):
            raise ValueError(
                f"it needs {TLS_SCHEME} in triton: without TLS it would not be used, or be sent in the clear"
            )
        return file

    @field_validator("kafka_extra")
    @classmethod
    def _delivery_is_kept(cls, extra: dict[str, bool | int | float | str]) -> dict[str, bool | int | float | str]:
        for name, given in extra.items():
            if why := why_refused(name):
                raise ValueError(f"expected no {name}: {why}")
            if name.endswith(("_ms", "_records", "_bytes")) and not (isinstance(given, int) and given >= 0):
                raise ValueError(f"expected a whole number for {name}, found {given!r}")
        return extra

    @field_validator("page")
    @classmethod
    def _page_has_an_address(cls, text: str) -> str:
        if text and not (_PAGE.fullmatch(text) and int(text.rpartition(":")[2]) <= 65535):
            raise ValueError("expected a port or host:port")
        return text

    @field_validator("page_token_file")
    @classmethod
    def _page_beyond_loopback_has_a_token(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if (page := info.data.get("page")) and file is None and not is_loopback(host := _address_of(page)[0]):
            raise ValueError(f"page_token_file: {host} can be reached from other machines, so the page needs a token")
        return file

    @property
    def page_address(self) -> tuple[str, int] | None:
        """Host and port on which the page listens; None where there is no page."""
        return _address_of(self.page) if self.page else None

    @property
    def environment(self) -> dict[str, str]:
        """The settings that were given, as variables of the environment."""
        given = self.model_dump(mode="json", include=self.model_fields_set, exclude_none=True)
        return {
            f"GLAIM_{name.upper()}": json.dumps(value) if isinstance(value, dict) else str(value)
            for name, value in given.items()
        }

    @property
    def kafka_tls_files(self) -> TlsFiles | None:
        """Files for TLS to Kafka; None for a protocol without TLS."""
        if "SSL" not in self.security_protocol:
            return None
        return TlsFiles(self.ssl_ca_file, self.ssl_cert_file, self.ssl_key_file)

    @property
    def triton_tls_files(self) -> TlsFiles | None:
        """Files for TLS to Triton; None for calls without TLS."""
        if not self.triton.startswith(TLS_SCHEME):
            return None
        return TlsFiles(self.triton_ca_file, self.triton_cert_file, self.triton_key_file)

    @property
    def triton_address(self) -> str:
        """Triton's host:port, without the scheme."""
        return self.triton.removeprefix(TLS_SCHEME)

    @property
    def metrics_tls_files(self) -> TlsFiles | None:
        """Files for TLS on the metrics port; None for HTTP."""
        if self.metrics_tls_cert is None:
            return None
        return TlsFiles(self.metrics_tls_client_ca, self.metrics_tls_cert, self.metrics_tls_key)

    @property
    def fixed_batch(self) -> int | None:
        """Number of windows in every call to a model; None if it varies."""
        return self.triton_batch if self.triton_fixed_batch else None

    @property
    def budget(self) -> Budget:
        """Limits of each partition's memory."""
        return Budget.of(self.record_mb, self.partition_groups)

    @property
    def needs_model(self) -> bool:
        """Whether the first rung is a network of ours; the other imputers start without a contract."""
        return self.imputer in NETWORKS

    @property
    def uses_forms(self) -> bool:
        """Whether closed forms fill holes, alone or beside networks."""
        return self.imputer not in ("interpolation", "last_value")

    @property
    def probed_share(self) -> float:
        """Share of the groups that are probed at a step; 0 where nothing is, as there is only one expert."""
        if not self.uses_forms:
            return 0.0
        if self.score_share is not None:
            return self.score_share
        return PROBED_SHARE if self.needs_model else 0.0

    @property
    def scored(self) -> bool:
        """Whether probes are imputed and experts blended."""
        return self.probed_share > 0

    @property
    def judges_health(self) -> bool:
        """Whether the health of sensors is judged where a closed form has their habits."""
        return bool(self.health_topic) and self.uses_forms

    @property
    def remembers(self) -> bool:
        """Whether a rebuild needs more than the windows: errors of the experts, or the health of sensors."""
        return self.scored or self.judges_health

    @property
    def compares_versions(self) -> bool:
        """Whether another version of a network is scored on the probes."""
        return self.scored and self.imputer == "triton"

    @property
    def quality(self) -> bool:
        """Whether live accuracy is published: it is measured on probes."""
        return self.scored and bool(self.quality_topic)

    @property
    def dlq_topic(self) -> str:
        """Name of the topic for records that cannot be used."""
        return self.topic_names.get("dead_letters", self.input_topic + DEAD_LETTER_SUFFIX)

    @property
    def late_topic(self) -> str:
        """Name of the topic for readings older than the window."""
        return self.topic_names.get("late", self.input_topic + LATE_SUFFIX)

    @property
    def outage_topic(self) -> str:
        """Name of the topic for groups that go dark or send again."""
        return self.topic_names.get("outages", self.output_topic + OUTAGE_SUFFIX)

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that a worker reads or writes, the input first."""
        output, outage, *others = self.parallel_topics
        return (self.input_topic, output, self.dlq_topic, self.late_topic, outage, *others)

    @property
    def parallel_topics(self) -> tuple[str, ...]:
        """Topics whose messages go to the partition number that their readings came from."""
        health = (self.health_topic,) if self.judges_health else ()
        quality = (self.quality_topic,) if self.quality else ()
        return (self.output_topic, self.outage_topic, *health, *quality)


def _address_of(page: str) -> tuple[str, int]:
    """Host and port of the page."""
    host, _, port = page.rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    """Whether a listener on this address can be reached from its own machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_settings(**overrides: object) -> Settings:
    """Read settings from the environment; `overrides` that are not None take precedence.

    Raises:
        SettingsError: a value is invalid, or a variable is of a setting that is gone; the message names it.
    """
    names = {name.lower().removeprefix("glaim_"): name for name in os.environ if name.lower().startswith("glaim_")}
    if gone := [f"{names[name]} is gone: {sentence}" for name, sentence in gone_settings().items() if name in names]:
        raise SettingsError("; ".join(gone))
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        problems = "; ".join(f"GLAIM_{where.upper()}: {problem}" for where, problem in problems_of(error))
        raise SettingsError(problems) from error
    except UnreadableSource as error:  # a JSON object that is none
        name = next((name for name in ("kafka_extra", "topic_names") if name in str(error)), "")
        raise SettingsError(f'GLAIM_{name.upper()}: expected a JSON object such as {{"linger_ms": 20}}') from error
