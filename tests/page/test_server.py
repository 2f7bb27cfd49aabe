"""The page over real HTTP: who may look, what it answers, and what a viewer costs."""

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.imputers import Imputed, Interpolation, Ladder, Windows
from glaim_stream.page import server as module
from glaim_stream.page.server import PageServer
from glaim_stream.pipeline import Pipeline
from tests.page.http_client import Answer, ask, stream
from tests.page.worker import paged_worker, readings
from tests.support import Neighbours, catalogue

TOKEN = "0123456789abcdef-token"
PATHS = ["/", "/page.css", "/page.js", "/api/state", "/api/stream", "/elsewhere"]
HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "g\u202eevil",
           "g\ndata: forged\n\n", "g" * 249, "g'\"&;--", "g/../..", "g\x00x"]  # fmt: skip


async def asked(port: int, path: str, *more: Any, **headers: str) -> Answer:
    return await asyncio.to_thread(ask, port, path, *more, **headers)


async def test_a_page_without_a_token_is_served_with_a_policy_that_runs_no_inline_script() -> None:
    async with paged_worker() as it:
        for path in ("/", "/page.js", "/page.css", "/icon.svg"):
            answer = await asked(it.server.port, path)
            assert answer.status == 200
            assert answer.body
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
        page = (await asked(it.server.port, "/")).body.decode()
        assert "<script>" not in page
        assert not re.search(r"\son\w+=", page), "an inline handler"
        assert "style=" not in page
        assert "//" not in page.replace("<!doctype", ""), "nothing is loaded from elsewhere"


async def test_every_path_but_health_needs_the_token() -> None:
    async with paged_worker(token=TOKEN) as it:
        for path in PATHS:
            answer = await asked(it.server.port, path)
            assert answer.status == 401, path
            assert b"page.js" not in answer.body
        health = await asked(it.server.port, "/health", Host="evil.example")
        assert (health.status, health.document) == (200, {"page": True})
        for path in PATHS[:4]:
            assert (await asked(it.server.port, path, Authorization=f"Bearer {TOKEN}")).status == 200


async def test_a_token_in_the_address_is_exchanged_once_for_a_cookie() -> None:
    async with paged_worker(token=TOKEN) as it:
        answer = await asked(it.server.port, f"/?token={TOKEN}")
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert TOKEN not in cookie
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
        shown = cookie.partition(";")[0]
        assert (await asked(it.server.port, "/api/state", Cookie=shown)).status == 200
        assert (await asked(it.server.port, "/?token=wrong")).status == 403
        assert (await asked(it.server.port, f"/api/state?token={TOKEN}")).status == 401, "only the page itself takes it"
        secure = await asked(it.server.port, f"/?token={TOKEN}", X_Forwarded_Proto="https")
        assert secure.headers["Set-Cookie"].endswith("; Secure")


async def test_a_token_that_is_sent_is_exchanged_and_a_wrong_one_is_asked_for_again() -> None:
    async with paged_worker(token=TOKEN) as it:
        port, host = it.server.port, f"localhost:{it.server.port}"
        good = await asked(port, "/login", "POST", f"token={TOKEN}".encode(), Host=host, Origin=f"http://{host}")
        assert good.status == 303
        assert "Set-Cookie" in good.headers
        wrong = await asked(port, "/login", "POST", b"token=wrong", Host=host)
        assert wrong.status == 403
        assert b'action="/login"' in wrong.body
        assert "style-src 'sha256-" in wrong.headers["Content-Security-Policy"]
        assert "Set-Cookie" not in wrong.headers
        for body in (b"x" * 5000, b"\xff\xfe"):
            assert (await asked(port, "/login", "POST", body, Host=host)).status in (403, 404)
        foreign = await asked(
            port, "/login", "POST", f"token={TOKEN}".encode(), Host=host, Origin="http://evil.example"
        )
        assert foreign.status == 403
        assert "Set-Cookie" not in foreign.headers


@pytest.mark.parametrize("token", [None, TOKEN])
async def test_unknown_names_and_other_sites_are_refused(token: str | None) -> None:
    async with paged_worker(token=token) as it:
        authorized = {"Authorization": f"Bearer {TOKEN}"}
        for path in PATHS:
            strange = await asked(it.server.port, path, Host="evil.example")
            assert (strange.status == 421) is (token is None), path
            assert strange.status == 401 or token is None or path in PATHS[1:3], path
        for path in PATHS[3:6]:
            foreign = await asked(it.server.port, path, Origin="http://evil.example", **authorized)
            assert foreign.status == 403, path
            assert "Access-Control-Allow-Origin" not in foreign.headers
            assert (await asked(it.server.port, path, Sec_Fetch_Site="cross-site", **authorized)).status == 403
        named = await asked(it.server.port, PATHS[3], Host="plant.example:1", **authorized)
        assert named.status == (200 if token else 421)


async def test_files_beside_those_of_the_page_are_not_there() -> None:
    async with paged_worker() as it:
        for path in ("/../access.py", "/static/page.js", "/%2e%2e/access.py", "/page.js/", "/api"):
            assert (await asked(it.server.port, path)).status == 404, path
        assert (await asked(it.server.port, "/page.js", "POST", b"")).status == 404
        assert (await asked(it.server.port, "/", "DELETE")).status == 501


async def test_hostile_names_arrive_as_they_are_and_forge_no_event() -> None:
    async with paged_worker(catalogue(groups="*")) as it:
        for name in HOSTILE:
            await it.send(readings(range(4), [name]))
        await it.send(readings(range(3, 9), HOSTILE))

        def look() -> list[tuple[str, Any, str]]:
            with stream(it.server.port, f"/api/stream?group={quote(HOSTILE[3])}") as events:
                found = []
                for event in events:
                    found.append(event)
                    if event[0] == "group":
                        return found
            raise AssertionError("the stream ended")

        found = await asyncio.to_thread(look)
        names = next(document for name, document, _ in found if name == "names")
        assert sorted(names["names"]) == sorted(HOSTILE)
        assert {name for name, _, _ in found} <= {"names", "overview", "group", ""}
        assert found[-1][1]["group"] == HOSTILE[3]


async def test_a_cut_stream_resumes_where_it_was() -> None:
    async with paged_worker(stream_s=1.5) as it:
        await it.send(readings(range(12), holes=[8]))

        def first() -> tuple[dict[str, int], str]:
            with stream(it.server.port, "/api/stream?group=g0") as events:
                return collect(events)

        def collect(events: Iterator[tuple[str, Any, str]]) -> tuple[dict[str, int], str]:
            counts: dict[str, int] = {}
            position = ""
            for name, document, id_ in events:
                position = id_ or position
                counts[name] = counts.get(name, 0) + 1
                if name == "group":
                    counts["rows"] = counts.get("rows", 0) + len(document["rows"])
            return counts, position

        counts, position = await asyncio.to_thread(first)
        assert counts["names"] == 1
        assert counts["rows"] == 6 * 2 + 1, "readings of the window, and the provisional value beside the final one"

        await it.send(readings(range(12, 13)))

        def again(last: str) -> dict[str, int]:
            with stream(it.server.port, "/api/stream?group=g0", Last_Event_ID=last) as events:
                return collect(events)[0]

        resumed = await asyncio.to_thread(again, position)
        assert "names" not in resumed
        assert resumed["rows"] == 2, "what was published since, and nothing twice"
        fresh = await asyncio.to_thread(again, "another.1.99999")
        assert fresh["names"] == 1, "a position of another process means nothing"
        assert fresh["rows"] > 2


async def test_a_poll_has_the_same_and_continues_where_the_last_one_was() -> None:
    async with paged_worker() as it:
        await it.send(readings(range(10)))
        one = (await asked(it.server.port, "/api/state?group=g0")).document
        assert [name for name, _ in one["events"]][:2] == ["names", "overview"]
        assert sum(len(event["rows"]) for name, event in one["events"] if name == "group") == 12
        await it.send(readings(range(10, 11)))
        two = (await asked(it.server.port, f"/api/state?group=g0&position={one['position']}")).document
        assert "names" not in [name for name, _ in two["events"]]
        assert sum(len(event["rows"]) for name, event in two["events"] if name == "group") == 2


async def test_a_quiet_stream_has_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.05)
    async with paged_worker(stream_s=1.0) as it:

        def beats() -> int:
            with stream(it.server.port) as events:
                return sum(name == "" for name, _, _ in events)

        assert await asyncio.to_thread(beats) > 3


async def test_viewers_that_take_nothing_hold_no_rows_and_no_other_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sleeps with an open stream; the board keeps one state for all of them, and the worker works on."""
    monkeypatch.setattr(module._Request, "timeout", 1.0)
    async with paged_worker() as it:
        sleeping = []
        for _ in range(module.MOST_STREAMS):
            connection = socket.create_connection(("127.0.0.1", it.server.port), timeout=5)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(b"GET /api/stream?group=g0 HTTP/1.0\r\nHost: localhost\r\n\r\n")
            sleeping.append(connection)
        await asyncio.sleep(0.5)
        assert (await asked(it.server.port, "/api/stream")).status == 503, "the page polls then"
        for step in range(30):
            await it.send(readings(range(step, step + 1)))
        seen = (await asked(it.server.port, "/api/state?group=g0")).document
        assert any(name == "group" for name, _ in seen["events"])
        assert len(it.board.watching.groups) == 1
        assert len(it.board.watching.groups["g0"].rows) <= 6 * 2 * 2
        for connection in sleeping:
            connection.close()


async def test_an_address_in_use_is_named() -> None:
    async with paged_worker() as it:
        with pytest.raises(SettingsError, match="GLAIM_PAGE: expected"):
            PageServer(it.board, it.server.access, "127.0.0.1", it.server.port)


async def test_a_flood_of_requests_keeps_the_number_of_threads() -> None:
    async with paged_worker() as it:
        before = threading.active_count()
        held = [socket.create_connection(("127.0.0.1", it.server.port), timeout=5) for _ in range(200)]
        await asyncio.sleep(0.5)
        assert threading.active_count() <= before + module.MOST_REQUESTS
        for connection in held:
            connection.close()
        end_s = time.monotonic() + 15
        while True:
            try:
                assert (await asked(it.server.port, "/health")).status == 200
                break
            except OSError:
                assert time.monotonic() < end_s
                await asyncio.sleep(0.1)


class Boundless(Neighbours):
    """A model whose answers are infinite or missing in turn."""

    async def impute(self, windows: Windows) -> Imputed:
        found = await super().impute(windows)
        found.values[..., ::2] = np.inf
        found.values[..., 1::2] = np.nan
        return found


async def test_numbers_that_json_lacks_and_foreign_records_leave_the_page_valid() -> None:
    """Every document of http_client is parsed as a browser does it."""
    pipeline = Pipeline(catalogue(lateness_s=0), {}, Ladder([Boundless(), Interpolation()]), score_share=1.0)
    foreign: list[Any] = [
        {"group": "g0", "sensor": "s1", "ts": 30_000 + at, "value": value}
        for at, value in enumerate([float("nan"), float("inf"), float("-inf"), 10**400, "\ud800", "NaN"])
    ]
    async with paged_worker(pipeline=pipeline, stream_s=1.0) as it:
        await it.send(readings(range(30), ["g0", "g1"], holes=[4, 7, 8, 9, 20]))
        await it.send([*foreign, {"temperature": float("nan")}, {"group": "\ud800", "ts": 1}])
        await it.send(readings(range(31, 40), ["g0", "g1"], holes=[35]))
        answer = await asked(it.server.port, "/api/state?group=g0")
        found = dict(answer.document["events"])
        assert len(found["group"]["rows"]) > 10
        rejected = {each["cause"]: each["count"] for each in found["overview"]["rejected"]}
        assert sum(rejected.values()) == sum(len(json.loads(dict(each.headers).get("glaim-positions", b"[0]")))
                                             for each in it.publisher.letters)  # fmt: skip
        assert rejected.keys() >= {"malformed", "out-of-limits"}
        example = next(each for each in found["overview"]["rejected"] if each["cause"] == "malformed")
        assert (example["partition"], example["offset"] > 0, bool(example["detail"])) == (3, True, True)

        def streamed() -> set[str]:
            with stream(it.server.port, "/api/stream?group=g0") as events:
                return {name for name, _, _ in events}

        assert await asyncio.to_thread(streamed) >= {"names", "overview", "group"}
