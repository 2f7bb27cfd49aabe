"""The page of one worker: its state while the worker runs, and its start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from glaim_stream.core.secret_files import secret_file
from glaim_stream.core.settings import Settings
from glaim_stream.imputers import ClosedFormImputer
from glaim_stream.kafka import follow
from glaim_stream.page.access import Access
from glaim_stream.page.board import Board
from glaim_stream.page.elsewhere import Elsewhere
from glaim_stream.page.faults import NEWEST, FaultLog
from glaim_stream.page.following import start_following
from glaim_stream.page.recent import RecentMessages
from glaim_stream.page.server import PageServer
from glaim_stream.page.sources import Sources
from glaim_stream.pipeline import PartitionEngine, Pipeline


class Page:
    """A page that is served once `open` is called."""

    def __init__(self, settings: Settings) -> None:
        """Read the page's settings.

        Raises:
            SettingsError: the token cannot be used.
        """
        self._host, self._port = settings.page_address or ("127.0.0.1", 0)
        file = settings.page_token_file
        self._access = Access(None if file is None else secret_file(file).text())
        self.recent = RecentMessages()
        self._settings = settings
        self._sources: Sources | None = None

    def show(
        self,
        pipeline: Pipeline,
        engines: Callable[[], Mapping[int, PartitionEngine]],
        health: Callable[[], dict[str, Any]],
        forms: ClosedFormImputer | None,
    ) -> None:
        """Set the sources of the page; see Sources."""
        elsewhere = Elsewhere() if self._settings.quality else None
        faults = FaultLog() if self._settings.judges_health else None
        self._sources = Sources(pipeline, engines, self.recent, health, forms, elsewhere=elsewhere, faults=faults)

    def runs_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop once it runs."""
        assert self._sources is not None
        self._sources.loop = loop

    def open(self) -> str:
        """Start serving; return the address.

        Raises:
            SettingsError: the page cannot listen on the address.
        """
        assert self._sources is not None
        board = Board(self._sources)
        server = PageServer(board, self._access, self._host, self._port)
        board.start()
        settings, elsewhere, faults = self._settings, self._sources.elsewhere, self._sources.faults
        if elsewhere is not None:
            start_following(settings.quality_topic, partial(follow, settings, settings.quality_topic, elsewhere.take))
        if faults is not None:
            topic = settings.health_topic
            start_following(topic, partial(follow, settings, topic, faults.take, newest=NEWEST))
        server.start()
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{server.port}/"


def page_of(settings: Settings) -> Page | None:
    """The page that the settings enable; None if they enable none.

    Raises:
        SettingsError: the page's token cannot be used.
    """
    return None if settings.page_address is None else Page(settings)
