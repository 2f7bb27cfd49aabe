"""A proxy before a real broker that hides requests from clients, as services with a part of Kafka's protocol do."""

import socket
import struct
from threading import Thread
from types import TracebackType
from typing import Self

from deploy.ports import LOOPBACK, choose_port

API_VERSIONS = 18
TRANSACTIONS = frozenset({24, 25, 26, 28})  # AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit
_FLEXIBLE = 3  # version of ApiVersions from which arrays are compact and entries end with tags


class HidingProxy:
    """A forwarded port whose answers to ApiVersions lack some requests."""

    def __init__(self, target_port: int, hidden: frozenset[int]) -> None:
        self.port, self.target_port, self.hidden = choose_port(), target_port, hidden

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        self._server = socket.create_server((LOOPBACK, self.port))
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
                broker = socket.create_connection((LOOPBACK, self.target_port))
            except OSError:
                return
            asked: dict[int, int] = {}  # version of ApiVersions by the number of the request
            Thread(target=self._requests, args=(client, broker, asked), daemon=True).start()
            Thread(target=self._answers, args=(broker, client, asked), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, asked: dict[int, int]) -> None:
        while (frame := _frame(client)) is not None:
            key, version, number = struct.unpack(">hhi", frame[:8])
            if key == API_VERSIONS:
                asked[number] = version
            broker.sendall(struct.pack(">i", len(frame)) + frame)
        broker.close()

    def _answers(self, broker: socket.socket, client: socket.socket, asked: dict[int, int]) -> None:
        while (frame := _frame(broker)) is not None:
            version = asked.pop(struct.unpack(">i", frame[:4])[0], None)
            answer = frame if version is None else frame[:6] + self._without(frame[6:], version)
            client.sendall(struct.pack(">i", len(answer)) + answer)
        client.close()

    def _without(self, body: bytes, version: int) -> bytes:
        """The array of supported requests, and what follows it, less the hidden ones."""
        flexible = version >= _FLEXIBLE
        if flexible:
            assert body[0] < 0x80, "expected a count of one byte"
            count, start, size = body[0] - 1, 1, 7
        else:
            count, start, size = struct.unpack(">i", body[:4])[0], 4, 6
        entries = [body[start + size * index : start + size * (index + 1)] for index in range(count)]
        kept = [each for each in entries if struct.unpack(">h", each[:2])[0] not in self.hidden]
        head = bytes([len(kept) + 1]) if flexible else struct.pack(">i", len(kept))
        return head + b"".join(kept) + body[start + size * count :]


def _frame(connection: socket.socket) -> bytes | None:
    """The next request or answer without its length; None at the end."""
    head = _exactly(connection, 4)
    return None if head is None else _exactly(connection, struct.unpack(">i", head)[0])


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        try:
            part = connection.recv(count - len(found))
        except OSError:
            return None
        if not part:
            return None
        found += part
    return found
