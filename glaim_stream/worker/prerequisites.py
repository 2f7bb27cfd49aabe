"""Prerequisites of a worker's start: contracts of its models, and a broker with topics and rights.

The worker waits for them. If it exited, the pauses between restarts would grow, and each restart would lose the log.
"""

from __future__ import annotations

from functools import partial

from kafka.errors import KafkaError

from glaim_stream.build import missing_contracts
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.errors import BrokerUnready, listed
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.check import require_rights, require_transactions
from glaim_stream.worker.health import Health
from glaim_stream.worker.waiting import wait_until


def wait_for_contracts(settings: Settings, catalogue: Catalogue, health: Health) -> None:
    """Wait until each model that is needed has a contract: a volume may be filled, or a model trained, later."""
    wait_until(partial(_missing_contracts, settings, catalogue), health)


def wait_for_broker(settings: Settings, health: Health) -> None:
    """Create topics and check rights and transactions; retry until the broker has what the worker needs.

    Raises:
        SettingsError: waiting would not help.
    """
    wait_until(partial(_missing_at_broker, settings), health)
    health.topics_are_there()


def _missing_contracts(settings: Settings, catalogue: Catalogue) -> str | None:
    files = missing_contracts(settings, catalogue)
    return f"expected model contracts, found none at {listed(files)}" if files else None


def _missing_at_broker(settings: Settings) -> str | None:
    try:
        ensure_topics(settings)
        require_rights(settings)
        require_transactions(settings)
    except BrokerUnready as error:
        return str(error)
    except KafkaError as error:  # the broker has stopped meanwhile
        return f"Kafka at {settings.kafka}: {error!r}"
    return None
