"""All settings of the worker and its tools, read from environment variables with the prefix `GLAIM_`.

The settings needed daily are also flags of `glaim-stream worker`. Each description gives the unit and what gets worse
in each direction.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from glaim_stream.core.budget import DEFAULT, Budget
from glaim_stream.core.errors import ModelError, SettingsError
from glaim_stream.core.tls import TlsFiles
from glaim_stream.core.trust import PublicKey, Trust
from glaim_stream.core.validation import problems_of

_ADDRESS = re.compile(r"(\w+://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+)(:\d{1,5})?")
PROBED_SHARE = 0.05  # of the groups at a step, beside a network
DEAD_LETTER_SUFFIX, LATE_SUFFIX, OUTAGE_SUFFIX = "-dlq", "-late", "-outages"


class Settings(BaseSettings):
    """Settings of the worker and its tools."""

    model_config = SettingsConfigDict(env_prefix="GLAIM_", frozen=True, extra="ignore")

    kafka: str = Field(default="localhost:9092", description="bootstrap servers, host:port, separated by commas")
    input_topic: str = Field(default="sensor-readings", description="topic of the readings")
    output_topic: str = Field(default="imputed-readings", description="topic of the filled rows")
    dead_letter_topic: str = Field(
        default="", description="topic for records that cannot be used; default: input topic with the suffix -dlq"
    )
    late_topic: str = Field(
        default_factory=lambda given: given.get("input_topic", "") + LATE_SUFFIX,
        min_length=1,
        description="topic for readings older than the window; default: input topic with the suffix -late",
    )
    outage_topic: str = Field(
        default_factory=lambda given: given.get("output_topic", "") + OUTAGE_SUFFIX,
        min_length=1,
        description="topic for groups that go dark or send again; default: output topic with the suffix -outages",
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
        "session_timeout_s moves no partition; unique among workers",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT",
        description="how Kafka is called. SSL: TLS; SASL: with a login. PLAINTEXT crosses the network unencrypted",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="PLAIN", description="how a login is proven; OAUTHBEARER takes a token instead of a password"
    )
    sasl_username: str | None = Field(default=None, description="user of the login")
    sasl_password: SecretStr | None = Field(
        default=None, description="password of the login; sasl_password_file keeps it out of the environment"
    )
    sasl_password_file: Path | None = Field(
        default=None,
        description="file with the password, instead of sasl_password; it is read again when it changes",
    )
    sasl_token_file: Path | None = Field(
        default=None,
        description="file with the token of OAUTHBEARER, such as a projected service account token; it is read again "
        "when it changes",
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

    catalogue: Path = Field(default=Path("groups.yaml"), description="file that lists the groups and their models")
    model_repository: Path = Field(default=Path("model_repo"), description="folder with the models' contracts")
    require_manifest: bool = Field(
        default=False,
        description="use no model version without a manifest of its files, in `glaim-stream models` and in the imputer "
        "`local`. true refuses the versions that were made before manifests; false uses them with a warning, and so a "
        "version whose manifest somebody has removed",
    )
    manifest_key: str = Field(
        default="",
        description="public key of minisign, one line of base64: use no model version whose manifest it has not "
        "signed. Empty: signatures are not checked, and who can write to the repository decides what runs",
    )
    model_operators: str = Field(
        default="",
        description="operators that the TorchScript of a model may use in addition, separated by commas, such as "
        "aten::fft_rfft. Each one more is code of torch that whoever makes a model can call",
    )
    imputer: Literal["triton", "local", "gaussian", "interpolation", "last_value"] = Field(
        default="triton",
        description="first rung of the ladder. local: TorchScript in the worker. gaussian: the closed form in the "
        "model's folder, without a network; beside triton and local, and with score_share, it is an expert of the "
        "blend, else a rung",
    )
    triton: str = Field(default="localhost:8001", description="host:port of Triton's gRPC endpoint")
    triton_tls: bool = Field(
        default=False, description="call Triton by TLS; without it values and tokens cross the network unencrypted"
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
        default=None, description="file with a token that is sent with every call to Triton; needs triton_tls"
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
        "shorter "
        "falls back to interpolation",
    )
    triton_batch: int = Field(
        default=64,
        ge=1,
        description="maximum windows per call; more windows use the accelerator better but wait longer",
    )
    triton_fixed_batch: bool = Field(
        default=False,
        description="pad every call to triton_batch windows, so that a window's values do not depend on the other "
        "windows "
        "of the call, to the byte; a small call then costs as much as a full one. triton_batch must be a power of two "
        "and equal to Triton's max_batch_size",
    )
    triton_in_flight: int = Field(
        default=8, ge=1, description="concurrent calls for each model; more calls hide latency but use more memory"
    )

    breaker_rest_s: float = Field(
        default=5.0,
        gt=0,
        description="seconds without calls for a model after an imputer failed to respond for it, before one batch "
        "tries it again; "
        "shorter "
        "detects its return sooner but delays more batches while it is down",
    )
    score_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of the groups observed at a step whose known values are also hidden and imputed, at most 32 "
        "windows per model; model, closed form and baseline are blended according to these errors. A larger share "
        "means more calls to the model but follows a drift sooner; 0 disables the blend, live accuracy and adaptive "
        "intervals. Default: 0.05 with triton and local, and 0 with gaussian, which would take up to three times as "
        "long",
    )
    score_least: int = Field(
        default=4,
        ge=1,
        le=32,
        description="minimum of such windows per step, partition and model, however few groups there are. Fewer detect "
        "a "
        "drift later; more are costly when years are streamed in an hour, but cost little at the pace of sensors",
    )

    shadow_scores: bool = Field(
        default=False,
        description="also impute the probe windows by the other version that Triton serves, the former one after a "
        "retraining, and show both errors on the same hidden readings; its values are not published. It needs triton "
        "as the imputer and score_share. It shows whether a new version is better, and has Triton compute probe "
        "windows twice, after the rows are made",
    )

    adaptive_intervals: bool = Field(
        default=True,
        description="widen and narrow the intervals of filled values by the errors of the last 95 steps, so that they "
        "hold the truth in 90 % of the cases also after a drift, and give interpolated values one. Without it they are "
        "those of the contract and the closed form. It needs score_share and has "
        "up to 8 more windows imputed per step and model, whose gaps are copied from recent holes",
    )

    poll_records: int = Field(
        default=20_000,
        ge=1,
        description="maximum records per poll; more records are faster but use more memory and add latency",
    )
    max_unpacked_bytes: int = Field(
        default=32 * 1024**2,
        ge=1_000_000,
        description="largest unpacked size of one compressed batch of Kafka records, and of the records of a poll; a "
        "larger batch becomes one dead letter. Larger takes batches that compress better, but each partition may need "
        "twice as much memory; smaller rejects honest batches of producers that compress well",
    )
    record_bytes: int = Field(
        default=DEFAULT.record_bytes,
        ge=1_000_000,
        description="bytes that one Arrow record may decompress to; a larger one is a dead letter with the cause "
        "too-large. More admits larger records, but also larger compression bombs",
    )
    record_json_bytes: int = Field(
        default=DEFAULT.record_json_bytes,
        ge=100_000,
        description="bytes of one JSON record; a larger one is a dead letter with the cause too-large. More admits "
        "larger records, each of which takes up to 25 times its bytes while it is decoded",
    )
    record_readings: int = Field(
        default=DEFAULT.record_readings,
        ge=1_000,
        description="readings of one record; a larger one is a dead letter with the cause too-large. More admits "
        "larger records, at some 0.4 kB per reading and a longer pause of the other partitions",
    )
    batch_bytes: int = Field(
        default=DEFAULT.batch_bytes,
        ge=1_000_000,
        description="bytes that are decoded at once: Arrow decompressed, JSON times 4; a poll with more is applied in "
        "parts. More uses more memory, less makes more and smaller output messages of large polls",
    )
    batch_readings: int = Field(
        default=DEFAULT.batch_readings,
        ge=1_000,
        description="readings of Arrow records that are decoded at once; a poll with more is applied in parts. More "
        "uses more memory, less makes more and smaller output messages of large polls",
    )
    partition_groups: int = Field(
        default=DEFAULT.groups,
        ge=1,
        description="groups with windows in one partition; readings of a further group are dead letters with the cause "
        "too-many-groups until one has been silent for a window. More admits more groups at 1.6 to 3.1 kB per sensor, "
        "but also more names that a producer makes up under a pattern",
    )
    slice_bytes: int = Field(
        default=DEFAULT.slice_bytes,
        ge=100_000,
        description="bytes of windows and rows after which steps that close are handed over, to be imputed and "
        "published, before further ones are made; batches_in_flight + 3 such slices wait at a time, each of at least "
        "one step. More uses more memory and pauses other partitions for longer, less makes more and smaller output "
        "messages",
    )
    batches_in_flight: int = Field(
        default=4,
        ge=1,
        description="concurrent batches per partition; more batches hide latency but use more memory",
    )
    delivery: Literal["at_least_once", "exactly_once"] = Field(
        default="at_least_once",
        description="exactly_once: rows, letters and offsets commit in one transaction for each partition, so that "
        "readers of committed records see every row once. at_least_once: less delay, and after a crash the rows since "
        "the last commit are published again",
    )
    transaction_timeout_s: float = Field(
        default=20.0,
        gt=0,
        description="seconds after which the broker aborts a transaction of a worker that is gone; readers of "
        "committed records wait that long behind it. Longer survives longer pauses of the worker; the broker's "
        "transaction.max.timeout.ms bounds it",
    )
    commit_interval_s: float = Field(
        default=0.5,
        gt=0,
        description="seconds between commits; longer repeats more work after a crash, shorter loads the broker",
    )
    session_timeout_s: float = Field(
        default=30,
        gt=0,
        description="seconds; shorter detects a dead worker sooner, but is more likely to declare a slow one dead",
    )
    linger_ms: int = Field(
        default=5,
        ge=0,
        description="batching delay of the producer; longer makes fewer and larger requests but adds latency",
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
    page_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="HTTP port of the page that shows the groups while they are filled; none: no page; 0 chooses a "
        "free port",
    )
    page_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="address on which the page listens; beyond this machine it needs page_token or page_token_file, "
        "and something in front of it that speaks TLS",
    )
    page_names: str = Field(
        default="",
        description="host names under which the page is opened, separated by commas, beside localhost and addresses; "
        "a request by another name is refused, so that no web site can reach the page by a name of its own",
    )
    page_token: SecretStr | None = Field(
        default=None,
        description="token that a viewer of the page must know, at least 16 characters; page_token_file keeps it out "
        "of the environment",
    )
    page_token_file: Path | None = Field(
        default=None,
        validate_default=True,
        description="file with the page's token, instead of page_token; it is read at the start",
    )
    timeliness_target_s: float = Field(
        default=10,
        gt=0,
        description="seconds from the time of the record that closes a step to the broker's acknowledgement within "
        "which a row counts as in time in glaim_timed_rows_total; changes only this count, on which alerts are based",
    )
    loop_silence_s: float = Field(
        default=60,
        ge=2,
        description="seconds without progress of the event loop after which /health/live fails; shorter restarts a "
        "stuck worker sooner, but also one that is only busy",
    )
    stop_grace_s: float = Field(
        default=55,
        gt=0,
        description="seconds after SIGTERM, SIGINT or a failure after which the process ends even if it cannot finish "
        "what is in flight, because broker, Triton or a disk do not answer; what it had not answered is delivered "
        "again. Shorter repeats more work, longer is cut off by the supervisor's SIGKILL, without a log line: keep it "
        "some seconds below the supervisor's grace period",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="least severity that is logged; debug also logs what Faust and the Kafka client do inside",
    )

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
        found = text.split(",") if info.field_name == "kafka" else [text]
        if not all(_ADDRESS.fullmatch(each.strip()) for each in found):
            raise ValueError(f"expected {'host:port, separated by commas' if found != [text] else 'host:port'}")
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
        """What a model version must show before it is used."""
        key = PublicKey.parse(self.manifest_key) if self.manifest_key else None
        operators = frozenset(name.strip() for name in self.model_operators.split(",") if name.strip())
        return Trust(self.require_manifest, key, operators)

    @field_validator("triton_ca_file", "triton_cert_file", "triton_token_file")
    @classmethod
    def _needs_tls(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None and not info.data.get("triton_tls"):
            raise ValueError("it needs triton_tls: without TLS it would not be used, or be sent in the clear")
        return file

    @field_validator("sasl_password_file")
    @classmethod
    def _one_password(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None and info.data.get("sasl_password") is not None:
            raise ValueError("expected one of sasl_password and sasl_password_file")
        return file

    @field_validator("page_token_file")
    @classmethod
    def _page_beyond_loopback_has_a_token(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        token, host = info.data.get("page_token"), info.data.get("page_host", "")
        if file is not None and token is not None:
            raise ValueError("expected one of page_token and page_token_file")
        if info.data.get("page_port") is not None and file is None and token is None and not is_loopback(host):
            raise ValueError(f"page_host {host} can be reached from other machines, so the page needs a token")
        return file

    @property
    def kafka_tls_files(self) -> TlsFiles | None:
        """Files for TLS to Kafka; None for a protocol without TLS."""
        if "SSL" not in self.security_protocol:
            return None
        return TlsFiles(self.ssl_ca_file, self.ssl_cert_file, self.ssl_key_file)

    @property
    def triton_tls_files(self) -> TlsFiles | None:
        """Files for TLS to Triton; None for calls without TLS."""
        return TlsFiles(self.triton_ca_file, self.triton_cert_file, self.triton_key_file) if self.triton_tls else None

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
        return Budget(
            self.record_bytes,
            self.record_json_bytes,
            self.record_readings,
            self.batch_bytes,
            self.batch_readings,
            self.partition_groups,
            self.slice_bytes,
        )

    @property
    def needs_model(self) -> bool:
        """Whether the first rung is a network; the other imputers start without a contract."""
        return self.imputer in ("triton", "local")

    @property
    def uses_forms(self) -> bool:
        """Whether closed forms fill holes, alone or beside networks."""
        return self.needs_model or self.imputer == "gaussian"

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
        return self.scored and self.shadow_scores and self.imputer == "triton"

    @property
    def quality(self) -> bool:
        """Whether live accuracy is published: it is measured on probes."""
        return self.scored and bool(self.quality_topic)

    @property
    def dlq_topic(self) -> str:
        """Name of the dead-letter topic."""
        return self.dead_letter_topic or self.input_topic + DEAD_LETTER_SUFFIX

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
        SettingsError: a value is invalid; the message names its variable.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        problems = "; ".join(f"GLAIM_{where.upper()}: {problem}" for where, problem in problems_of(error))
        raise SettingsError(problems) from error
