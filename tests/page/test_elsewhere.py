"""Groups of other workers on a worker's page."""

import json
from typing import Any

import pytest

from glaim_stream.output.quality.records import key_of
from glaim_stream.page.board import Viewer
from glaim_stream.page.elsewhere import Elsewhere
from tests.page.conftest import Tab
from tests.page.test_page_in_browser import CANARIES
from tests.page.worker import PARTITION, paged_worker, readings

TILES = "#tiles .tile:not([hidden])"


def message(group: str, index: int = 1, *, source: str = "hidden", mae: float = 2.0) -> tuple[bytes, bytes]:
    figures = [
        {"sensor": "flow", "gap_age": age, "methods": {"published": {"count": count, "mae": mae}}, "intervals": count,
         "coverage": held, "width": 3.0}
        for age, count, held in (("1", 6, 1.0), ("2-4", 2, 0.5))
    ]  # fmt: skip
    regret = {"count": 8, "best": "gaussian", "share": 0.04, "scaled_mae": {"published": 0.5, "gaussian": 0.48}}
    document = {
        "group": group, "model": "m", "source": source, "from": f"2026-11-2{index}T05:00:00Z",
        "to": f"2026-11-2{index}T05:48:00Z", "steps": 48, "regret": regret, "sensors": figures,
    }  # fmt: skip
    return key_of(group, source, index), json.dumps(document).encode()


def test_the_newest_record_of_a_group_counts_until_it_is_deleted() -> None:
    elsewhere = Elsewhere()
    for index, mae in ((2, 7.0), (1, 5.0)):
        elsewhere.take(0, *message("g", index, mae=mae))
    elsewhere.take(0, *message("g", 3, source="late", mae=9.0))
    elsewhere.take(0, b"[", b"no JSON")
    elsewhere.take(0, b"[", b'{"source": "hidden", "group": 1}')
    found = elsewhere.of("g")
    assert found is not None
    assert (found.coverage, json.loads(found.detail)["sensors"]) == (7 / 8, [["flow", 8.0, 7.0, 7 / 8]])
    elsewhere.take(0, message("g", 1)[0], None)
    assert elsewhere.of("g") is not None, "that of an older stretch"
    elsewhere.take(0, message("g", 2)[0], None)
    assert elsewhere.of("g") is None


def test_memory_is_bounded_by_the_groups_whose_records_came_last() -> None:
    elsewhere = Elsewhere(most=3)
    for number in range(5):
        elsewhere.take(number, *message(f"g{number}"))
    assert [name for name, _ in elsewhere.outside({3})] == ["g2", "g4"]


async def test_a_group_of_another_worker_is_said_to_be_there_with_its_newest_accuracy() -> None:
    import asyncio

    async with paged_worker(board_runs=False) as it:
        it.sources.elsewhere = Elsewhere()
        await it.send(readings(range(6)))
        it.sources.elsewhere.take(PARTITION + 1, *message("g9"))
        it.sources.elsewhere.take(PARTITION, *message("g8"))

        def events(group: str, position: str | None = None) -> tuple[dict[str, Any], Viewer]:
            with it.board.viewer(group) as viewer:
                viewer.resume(position)
                it.board.refresh()
                return {name: json.loads(data) for name, data in viewer.take()}, viewer

        found, viewer = await asyncio.to_thread(events, "g9")
        assert found["elsewhere"]["groups"] == [["g9", PARTITION + 1, 0.875, 0]], "the worker's own partition is not"
        assert f"partition {PARTITION + 1}" in found["gone"]["why"]
        assert found["gone"]["record"]["best"] == "gaussian"
        again, _ = await asyncio.to_thread(events, "g9", viewer.position)
        assert "elsewhere" not in again, "it was sent before"
        absent, _ = await asyncio.to_thread(events, "g8")
        assert absent["gone"] == {"group": "g8", "why": "this worker has no such group now"}


@pytest.mark.parametrize("names", [CANARIES])
async def test_the_page_shows_them_apart_and_their_names_as_text(tab: Tab, names: list[str]) -> None:
    async with paged_worker() as it:
        it.sources.elsewhere = Elsewhere()
        await it.send(readings(range(6)))
        for name in names:
            it.sources.elsewhere.take(PARTITION + 1, *message(name))
        await tab.open(it.address)
        await tab.has(1 + len(names), TILES)
        await tab.until(f"document.querySelectorAll('{TILES}.s4').length === {len(names)}")
        shown = await tab.run(f"[...document.querySelectorAll('{TILES}.s4 b')].map(b => b.textContent)")
        assert sorted(shown) == sorted(names)
        assert "88 % in band" in await tab.run(f"document.querySelector('{TILES}.s4 span').textContent")
        await tab.run(f"document.querySelector('{TILES}.s4').click()")
        await tab.until("!document.querySelector('#other').hidden")
        assert await tab.text("#group-title") == shown[0]
        assert "another worker has this group" in await tab.text("#group-note")
        cells = await tab.run("[...document.querySelectorAll('#other-rows tr > *')].map(cell => cell.textContent)")
        assert cells == ["flow", "8", "2", "88 %"], "hidden readings, published error, inside the band"
        figures = (
            "[...document.querySelectorAll('#other-figures div')].map(e => [...e.children].map(c => c.textContent))"
        )
        assert await tab.run(figures) == [
            ["error beside the baseline's", "× 0.5"],
            ["regret, best alone: closed form", "4.0 %"],
        ]
        await tab.run(f"document.querySelector('{TILES}:not(.s4)').click()")
        await tab.until("document.querySelector('#other').hidden && document.querySelectorAll('#charts figure').length")
        assert await tab.run("window.canary ?? null") is None
        assert tab.problems == []
