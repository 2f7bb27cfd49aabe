"""A TCP proxy between two real parts that can stop forwarding, reset and delay: the network that fails."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Coroutine
from threading import Thread
from types import TracebackType
from typing import Any, Self

from deploy.ports import LOOPBACK, choose_port

_PIECE = 64 * 1024
_POLL_S = 0.05


class Proxy:
    """Forwards a port to another one until told otherwise; runs in a thread of its own.

    While `held` is set, connections stay open and are accepted, and not a byte passes: what a partition of the network
    looks like, since nobody says that the other side is gone.
    """

    def __init__(self, target_port: int, port: int | None = None) -> None:
        self.port = port or choose_port()
        self.target_port = target_port
        self.held = False
        self.delay_s = 0.0
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"{LOOPBACK}:{self.port}"

    def hold(self) -> None:
        """Let nothing through any more, and say nothing about it."""
        self.held = True

    def delay(self, seconds: float) -> None:
        """Let every piece through this much later."""
        self.delay_s = seconds

    def heal(self) -> None:
        """Forward again, what was held included."""
        self.held, self.delay_s = False, 0.0

    def reset(self) -> None:
        """End every connection as a router that lost its state does: by RST."""
        self._run(self._reset())

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._accept, LOOPBACK, self.port))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _end(self) -> None:
        self._server.close()
        await self._reset()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _reset(self) -> None:
        for writer in self._writers:
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(LOOPBACK, self.target_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, there_writer}
        await asyncio.gather(self._pump(reader, there_writer), self._pump(there_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(_PIECE):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                while self.held:  # noqa: ASYNC110  set by another thread
                    await asyncio.sleep(_POLL_S)
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass  # one side has gone, so the other one goes
        finally:
            self._writers.discard(writer)
            writer.close()
