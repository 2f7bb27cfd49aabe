"""Waits for a broker that is not there yet, or lacks what somebody may add: a right, a topic, another broker.

Ending would be a loop of restarts whose pauses grow, and whose log is gone with each of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from kafka.errors import KafkaError

from glaim_stream.check.broker import require_rights
from glaim_stream.check.transactions import require_transactions
from glaim_stream.connections.retry import pauses_s
from glaim_stream.errors import BrokerUnready
from glaim_stream.kafka.topics import ensure_topics
from glaim_stream.settings import Settings
from glaim_stream.worker.health import Health

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
_REPEAT_S = 60.0  # between two log lines with the same reason


def wait_for_broker(
    settings: Settings,
    health: Health,
    *,
    sleep: Callable[[float], object] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """See to topics, rights and transactions, again and again until the broker has what the worker needs.

    Args:
        settings: of the worker.
        health: shows meanwhile what is missing.
        sleep: waits for so many seconds.
        now_s: a monotonic clock, seconds.

    Raises:
        SettingsError: waiting would not help.
    """
    pauses = pauses_s(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    said, said_s = "", 0.0
    while True:
        try:
            ensure_topics(settings)
            require_rights(settings)
            require_transactions(settings)
        except (BrokerUnready, KafkaError) as error:
            why = str(error) if isinstance(error, BrokerUnready) else f"Kafka at {settings.kafka}: {error!r}"
        else:
            health.topics_are_there()
            return
        health.topics_are_missing(why)
        if why != said or now_s() - said_s >= _REPEAT_S:
            log.warning("%s. The worker waits and tries again", why)
            said, said_s = why, now_s()
        sleep(next(pauses))
