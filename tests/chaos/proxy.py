"""A TCP proxy between two real processes that can hold, delay and reset connections, as a failing network does."""

import asyncio
import socket
import struct
from collections.abc import Coroutine
from threading import Thread
from types import TracebackType
from typing import Any, Self

from deploy.ports import LOOPBACK, choose_port

_CHUNK_BYTES = 64 * 1024
_POLL_S = 0.05


class Proxy:
    """A forwarded port; the event loop runs in a separate thread.

    While `held` is set, connections are accepted and stay open, but no data passes. A network partition looks like
    this, because neither side learns that the other one is gone.
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
        """Stop forwarding data; keep connections open."""
        self.held = True

    def delay(self, seconds: float) -> None:
        """Forward each chunk this much later."""
        self.delay_s = seconds

    def heal(self) -> None:
        """Forward again, including the data that was held."""
        self.held, self.delay_s = False, 0.0

    def reset(self) -> None:
        """End every connection with RST, as a router that lost its state does."""
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
            target_reader, target_writer = await asyncio.open_connection(LOOPBACK, self.target_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, target_writer}
        await asyncio.gather(self._pump(reader, target_writer), self._pump(target_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                while self.held:  # noqa: ASYNC110  set by another thread
                    await asyncio.sleep(_POLL_S)
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass  # one side closed, so close the other one
        finally:
            self._writers.discard(writer)
            writer.close()
