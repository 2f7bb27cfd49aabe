"""Every setting of the worker, read from the environment in this one place.

Each is an environment variable with the prefix `GLAIM_`, a flag of `glaim-stream worker` where it matters daily, and
documented here with its unit, its default, and what gets worse in each direction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from glaim_stream.errors import SettingsError

DEAD_LETTER_SUFFIX, LATE_SUFFIX, OUTAGE_SUFFIX = "-dlq", "-late", "-outages"


class Settings(BaseSettings):
    """Settings of the worker and of the tools beside it."""

    model_config = SettingsConfigDict(env_prefix="GLAIM_", frozen=True, extra="ignore")

    kafka: str = Field(default="localhost:9092", description="bootstrap servers, host:port, comma separated")
    input_topic: str = "sensor-readings"
    output_topic: str = "imputed-readings"
    dead_letter_topic: str = Field(default="", description="input topic with the suffix -dlq when empty")
    late_topic: str = Field(
        default_factory=lambda given: given.get("input_topic", "") + LATE_SUFFIX,
        min_length=1,
        description="readings older than the window; input topic with the suffix -late when not given",
    )
    outage_topic: str = Field(
        default_factory=lambda given: given.get("output_topic", "") + OUTAGE_SUFFIX,
        min_length=1,
        description="groups that go dark and speak again; output topic with the suffix -outages when not given",
    )
    consumer_group: str = Field(default="glaim-stream", description="Kafka's consumer group")
    instance_id: str | None = Field(
        default=None,
        description="static membership: a name that this worker keeps over restarts, so that a restart within "
        "session_timeout_s moves no partition; must differ between workers",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    ssl_ca_file: Path | None = Field(default=None, description="PEM; the system's authorities when not given")
    ssl_cert_file: Path | None = Field(default=None, description="PEM of our own certificate, for brokers that ask")
    ssl_key_file: Path | None = Field(default=None, description="PEM of its key, without a password")

    catalogue: Path = Field(default=Path("groups.yaml"), description="which groups there are and what repairs them")
    model_repository: Path = Field(default=Path("model_repo"), description="where the models' contracts lie")
    imputer: Literal["triton", "local", "interpolation", "last_value", "echo"] = Field(
        default="triton",
        description="first rung of the ladder. local: TorchScript in the worker. echo: none at all, for benchmarks",
    )
    triton: str = Field(default="localhost:8001", description="host:port of Triton's gRPC endpoint")
    triton_deadline_s: float = Field(
        default=5.0, gt=0, description="longer rides out restarts and delays output; shorter falls to interpolation"
    )
    triton_batch: int = Field(
        default=64, ge=1, description="windows in one call; more uses the accelerator better and waits longer"
    )
    triton_fixed_batch: bool = Field(
        default=False,
        description="fill every call to triton_batch windows, so that a model's answers are the same to the byte "
        "whatever the company; costs a full call for every small one. triton_batch must then be a power of two, and "
        "what Triton serves as max_batch_size",
    )
    triton_in_flight: int = Field(
        default=8, ge=1, description="calls at a time; more hides latency and holds more memory"
    )

    breaker_rest_s: float = Field(
        default=5.0,
        gt=0,
        description="after a call that got no answer, how long an imputer is left alone before one batch tries it "
        "again; shorter notices its return sooner and delays more batches while it is away",
    )
    fallback_local: bool = Field(
        default=False,
        description="while Triton is away the same TorchScript runs in the worker, before interpolation stands in; "
        "needs the extra `local`, and the weights below model_repository. Slower, and the worker holds the model",
    )
    score_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="of the groups that speak at a step, the share whose known values are hidden and imputed too, 32 "
        "windows of a model at most: model and baseline are blended by these errors. More asks the "
        "model more and follows a drift sooner; 0 switches blend and live accuracy off",
    )
    score_least: int = Field(
        default=4,
        ge=1,
        le=32,
        description="such windows at a step however few groups there are, for each partition and model: fewer see a "
        "drift later; more cost where years are streamed in an hour, and next to nothing at the pace of sensors",
    )

    poll_records: int = Field(
        default=20_000, ge=1, description="most records of a poll; more is faster, holds more memory and adds latency"
    )
    batches_in_flight: int = Field(
        default=4,
        ge=1,
        description="batches of a partition between delivery and answer; more hides latency and holds more memory",
    )
    commit_interval_s: float = Field(
        default=0.5, gt=0, description="longer replays more after a crash; shorter burdens the broker"
    )
    session_timeout_s: float = Field(
        default=30, gt=0, description="shorter notices a dead worker sooner, and mistakes a slow one for dead sooner"
    )
    linger_ms: int = Field(default=5, ge=0, description="longer makes fewer, larger produce requests and adds latency")
    max_message_bytes: int = Field(default=1_000_000, ge=10_000, description="largest message that the broker takes")
    partitions: int = Field(default=4, ge=1, description="partitions of topics that the worker has to create")
    replication_factor: int = Field(default=1, ge=1, description="replicas of topics that the worker has to create")
    metrics_port: int = Field(
        default=9464, ge=0, le=65535, description="HTTP port of /metrics and /health; 0 picks a free one"
    )
    metrics_host: str = Field(default="0.0.0.0", description="a scraper comes from another host")  # noqa: S104
    loop_silence_s: float = Field(
        default=60,
        ge=2,
        description="/health/live says no when the event loop has not turned for so long; shorter restarts a stuck "
        "worker sooner, and one that is only busy too",
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("triton_fixed_batch")
    @classmethod
    def _batch_can_be_fixed(cls, fixed: bool, info: ValidationInfo) -> bool:
        # At other sizes a window's last bits depend on its place in the batch too: kernels treat the rest that does
        # not fill a tile otherwise. Measured on the shipped models: 8 to 256 hold, 40, 48, 56 and 61 do not.
        batch = info.data.get("triton_batch", 0)
        if fixed and batch & (batch - 1):
            raise ValueError(f"a fixed batch needs triton_batch to be a power of two, found {batch}")
        return fixed

    @field_validator("ssl_key_file")
    @classmethod
    def _certificate_has_its_key(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if (key is None) != (info.data.get("ssl_cert_file") is None):
            raise ValueError("a certificate and its key go together, ssl_cert_file and ssl_key_file")
        return key

    @property
    def fixed_batch(self) -> int | None:
        """Windows of every call to a model; None: as many as there are."""
        return self.triton_batch if self.triton_fixed_batch else None

    @property
    def needs_model(self) -> bool:
        """The first rung asks a trained model; the other imputers need nothing but the window."""
        return self.imputer in ("triton", "local")

    @property
    def scored(self) -> bool:
        """Whether probes are asked and experts blended: a single model-free answer has nothing to be blended with."""
        return self.needs_model and self.score_share > 0

    @property
    def dlq_topic(self) -> str:
        """Name of the dead-letter topic."""
        return self.dead_letter_topic or self.input_topic + DEAD_LETTER_SUFFIX

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic that a worker reads or writes; the input first."""
        return (self.input_topic, self.output_topic, self.dlq_topic, self.late_topic, self.outage_topic)


def read_settings(**overrides: object) -> Settings:
    """Settings from the environment, with `overrides` (None: not given) over them.

    Raises:
        SettingsError: a value cannot be used; the message names the variable.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        problems = "; ".join(
            f"GLAIM_{str(problem['loc'][0]).upper()}: {problem['msg']}, found {problem['input']!r}"
            for problem in error.errors(include_url=False)
        )
        raise SettingsError(problems) from error
