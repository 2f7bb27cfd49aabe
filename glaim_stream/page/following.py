"""Follows topics for the page, each in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any

from glaim_stream.core.retry import pauses_s

log = logging.getLogger(__name__)


def start_following(topic: str, follow: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Follow a topic in a thread that ends with the process; `follow` is called again when it fails.

    Args:
        topic: name of the topic, for the log.
        follow: function that reads the topic as long as it can be read.
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
