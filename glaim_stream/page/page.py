"""The page of one worker: its state while the worker runs, and its start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from glaim_stream.core.secret_files import secret_file
from glaim_stream.core.settings import Settings
from glaim_stream.page.access import Access
from glaim_stream.page.board import Board
from glaim_stream.page.recent import RecentMessages
from glaim_stream.page.server import PageServer
from glaim_stream.page.sources import Sources
from glaim_stream.pipeline import PartitionEngine, Pipeline


class Page:
    """A page that is served once `open` is called."""

    def __init__(self, host: str, port: int, token: str | None) -> None:
        """Prepare a page.

        Args:
            host: address to listen on.
            port: port to listen on.
            token: token that viewers need; None: everybody who reaches the page may look.

        Raises:
            SettingsError: the token is too short.
        """
        self._host, self._port, self._access = host, port, Access(token)
        self.recent = RecentMessages()
        self._sources: Sources | None = None

    def show(
        self,
        pipeline: Pipeline,
        engines: Callable[[], Mapping[int, PartitionEngine]],
        health: Callable[[], dict[str, Any]],
    ) -> None:
        """Set the sources of the page; see Sources."""
        self._sources = Sources(pipeline, engines, self.recent, health)

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
        server.start()
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{server.port}/"


def page_of(settings: Settings) -> Page | None:
    """The page that the settings enable; None if they enable none.

    Raises:
        SettingsError: the page's token cannot be used.
    """
    if settings.page_address is None:
        return None
    file = settings.page_token_file
    return Page(*settings.page_address, None if file is None else secret_file(file).text())
