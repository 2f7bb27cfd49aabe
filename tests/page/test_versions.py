"""What fills the holes of a model, as the page shows it: versions, their origin, their age and live errors."""

import re
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from deploy.cache import CHECKOUT
from glaim_stream.core import metrics
from glaim_stream.core.contract import read_contract
from glaim_stream.form import ClosedForm
from glaim_stream.imputers import Imputed, Windows
from glaim_stream.page.figures import Accuracy
from glaim_stream.page.versions import versions_of
from glaim_stream.pipeline import Pipeline
from tests.page.conftest import Tab
from tests.page.plant import plant, plant_readings
from tests.page.worker import paged_worker, readings
from tests.support import Neighbours, catalogue

CELLS = "[...document.querySelectorAll('#method-rows tr')].map(row => [...row.cells].map(cell => cell.textContent))"


@pytest.fixture(autouse=True)
def no_versions_of_other_tests() -> None:
    """The metrics, from which the page takes the versions of networks, belong to the process."""
    for metric in (metrics.model_info, metrics.shadow_error, metrics.shadow_questions):
        metric.clear()


@pytest.mark.parametrize("learn", [False, True])
def test_versions_say_what_they_were_made_of_and_which_are_out_of_service(learn: bool) -> None:
    folder = CHECKOUT / "model_repo" / "plant-pump"
    contract, form = read_contract(folder), ClosedForm.load(folder)
    model = catalogue(sensors=2).models[0].model_copy(update={"learn": learn})
    found = versions_of(model, ["1", "2"], {"10": "not_finite"}, {model.name: contract}, form)
    assert [(each["method"], each["version"], each["refused"]) for each in found] == [
        ("model", "10", "not_finite"), ("model", "2", ""), ("model", "1", ""),
        ("gaussian", f"gaussian-{form.digest[:8]}", ""),
    ]  # fmt: skip
    assert found[2]["source"] == "trained on 30,240 rows of plant.parquet"
    assert found[2]["made_ms"] == datetime.fromisoformat(contract.created).timestamp() * 1000
    assert found[3]["source"] == ("learned by the workers" if learn else "closed form of the model repository")
    assert found[3]["until_ms"] == form.until_ms


async def test_each_method_stands_beside_its_version_and_its_newest_value(tab: Tab) -> None:
    async with plant() as it:
        await it.send(plant_readings(0, 110))
        await tab.open(it.address)
        await tab.until(f"{CELLS}.length === 3")
        published, form, baseline = await tab.run(CELLS)
        assert published[:3] == ["published", "", "all methods by their weights"]
        assert it.sources.forms is not None
        known = it.sources.forms.form_of("plant-pump")
        assert known is not None
        assert form[:2] == ["closed form", f"gaussian-{known.digest[:8]}"]
        assert form[2].startswith("closed form of the model repository, of readings up to 2026-01-15")
        await tab.until(f"{CELLS}[1][4].startsWith('2025-02-19 2')")
        assert baseline[3] == "× 1.00"
        assert tab.problems == []


async def test_every_method_alone_is_scored_beside_what_is_published(tab: Tab) -> None:
    pipeline = Pipeline(catalogue(lateness_s=0), {}, Neighbours(), score_share=1.0)
    async with paged_worker(pipeline=pipeline) as it:
        for start in range(0, 90, 10):
            await it.send(readings(range(start, start + 10), ["g0", "g1", "g2"]))
        await tab.open(it.address)
        await tab.until(f"{CELLS}.length === 3 && {CELLS}[0][3].startsWith('× ')")
        assert (await tab.run(CELLS))[1][0] == "model"
        first = await tab.run(f"{CELLS}[0][3]")
        await tab.run("document.querySelector('#show-final').click()")
        await tab.until(f"{CELLS}[0][3] !== {first!r}")
        assert tab.problems == []


class Off(Neighbours):
    """A version of a model whose values are all too high."""

    def __init__(self, version: str, offset: float) -> None:
        self.version, self.offset = version, offset

    async def impute(self, windows: Windows) -> Imputed:
        found = await super().impute(windows)
        return replace(found, values=found.values + self.offset, version=[self.version] * len(windows))


async def test_the_former_version_has_its_error_beside_the_newest_on_the_same_readings(tab: Tab) -> None:
    former = Off("1", 3.0)

    async def other(windows: Windows, serving: str) -> Imputed:
        assert serving == "2"
        return await former.impute(windows)

    for version in ("1", "2"):
        metrics.model_info.labels("m", version).set(1)
    pipeline = Pipeline(catalogue(lateness_s=0), {}, Off("2", 0.0), score_share=1.0, shadow=other)
    async with paged_worker(pipeline=pipeline) as it:
        for start in range(0, 90, 10):
            await it.send(readings(range(start, start + 10), ["g0", "g1", "g2"]))
        await tab.open(it.address)
        await tab.until(f"{CELLS}.length === 4 && {CELLS}[2][3].startsWith('× ')")
        _, newest, beside, _ = await tab.run(CELLS)
        assert newest[:2] == ["model", "2"]
        assert re.fullmatch(r"× \d+\.\d\d", newest[3]), "beside the baseline"
        (pair,) = [each for each in Accuracy().read("m")["compared"] if each["version"] == "1"]
        assert pair["against"] == "2"
        first = pair["first"].values()
        times = np.exp(np.mean([np.log(each["own"] / each["other"]) for each in first]))
        assert times > 1.2
        assert beside[3] == f"× {times:.2f} of version 2"
        count = sum(each["count"] for each in first)
        title = await tab.run("document.querySelector('#method-rows').rows[2].cells[3].title")
        assert title == f"on the same {count:,.0f} hidden readings; below 1 it is the better one"
        await tab.run("document.querySelector('#show-final').click()")
        await tab.until(f"{CELLS}[2][3] !== {beside[3]!r} && {CELLS}[2][3].startsWith('× ')")
        assert tab.problems == []


async def test_a_former_version_that_nobody_asks_has_no_error(tab: Tab) -> None:
    for version in ("1", "2"):
        metrics.model_info.labels("m", version).set(1)
    pipeline = Pipeline(catalogue(lateness_s=0), {}, Off("2", 0.0), score_share=1.0)
    async with paged_worker(pipeline=pipeline) as it:
        for start in range(0, 60, 10):
            await it.send(readings(range(start, start + 10), ["g0", "g1", "g2"]))
        await tab.open(it.address)
        await tab.until(f"{CELLS}.length === 4 && {CELLS}[1][3].startsWith('× ')")
        assert (await tab.run(f"{CELLS}[2]"))[1:4:2] == ["1", "–"]
        assert tab.problems == []


async def test_the_error_stands_beside_the_version_that_answers_after_a_newer_one_was_withdrawn(tab: Tab) -> None:
    for version in ("1", "2", "3"):
        metrics.model_info.labels("m", version).set(1)
    pipeline = Pipeline(catalogue(lateness_s=0), {}, Off("2", 0.0), score_share=1.0)
    async with paged_worker(pipeline=pipeline) as it:
        for start in range(0, 60, 10):
            await it.send(readings(range(start, start + 10), ["g0", "g1", "g2"], holes=range(0, 60, 7)))
        await tab.open(it.address)
        await tab.until(f"{CELLS}.length === 5 && {CELLS}[2][3].startsWith('× ')")
        assert [row[1:4:2] for row in (await tab.run(CELLS))[1:4:2]] == [["3", "–"], ["1", "–"]]
        assert tab.problems == []
