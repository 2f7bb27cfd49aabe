"""Topics that the page follows, each in a thread with an event loop of its own, beside the worker's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any

from glaim_stream.core.retry import pauses_s

log = logging.getLogger(__name__)


def start_following(topic: str, follow: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Follow a topic in a thread, which ends with the process; `follow` is called again when it fails.

    Args:
        topic: its name, for the log.
        follow: reads the topic, as long as it can be read.
    """
    Thread(target=lambda: asyncio.run(_follow(topic, follow)), name=f"page-{topic}", daemon=True).start()


async def _follow(topic: str, follow: Callable[[], Coroutine[Any, Any, None]]) -> None:
    pauses = pauses_s()
    while True:
        try:
            await follow()
        except Exception as error:
            log.warning("the page cannot read the topic %s: %r", topic, error)
        await asyncio.sleep(next(pauses))
