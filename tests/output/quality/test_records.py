"""Records of live accuracy, from the readings to what is published."""

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.blend import Expert
from glaim_stream.core.times import moment_ms
from glaim_stream.core.vocabulary import GAP_AGE_NAMES, GAP_AGES
from glaim_stream.output.quality.records import MOST_KEYS_A_GROUP, SLOTS, group_of_key, key_of
from glaim_stream.output.records import Rows
from glaim_stream.pipeline import settling
from glaim_stream.pipeline.accuracy import PublishedProbes
from glaim_stream.windows import STRETCH, Place
from tests.output.quality.streams import Drifting, Partition, documents, pipeline_of
from tests.pipeline.form_streams import AWAY, Form, Offset, records

STEP_MS = 1000


def stretch_of(document: dict[str, Any]) -> int:
    return moment_ms(document["from"]) // (STRETCH * STEP_MS)


async def test_a_record_covers_a_whole_aligned_stretch_and_names_it() -> None:
    found = documents((await Partition(pipeline_of(Offset(20.0))).feed(records(200))).records)
    assert {(each["group"], stretch_of(each)) for each in found.values()} == {
        (f"g{group}", index) for group in range(3) for index in range(200 // STRETCH - 0)
    }
    for key, each in found.items():
        assert moment_ms(each["from"]) % (STRETCH * STEP_MS) == 0
        assert moment_ms(each["to"]) - moment_ms(each["from"]) == each["steps"] * STEP_MS == STRETCH * STEP_MS
        assert key == key_of(each["group"], "hidden", stretch_of(each))
        assert each["model"] == "m"


async def test_without_a_topic_nothing_is_summed_up_and_the_rows_are_the_same() -> None:
    topic = records(150)
    on, off = [await Partition(pipeline_of(Offset(20.0), quality=each)).feed(topic) for each in (True, False)]
    assert (len(off.records) == 0, off.scores.quality) == (True, None)
    for name in Rows.__slots__:
        one, other = (np.concatenate([getattr(rows, name) for rows in each.rows]) for each in (on, off))
        np.testing.assert_array_equal(one, other, name)


async def test_the_figures_are_those_of_an_independent_sum_over_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Summed here probe by probe, with plain Python; what the experts and the blend predicted is taken on the way."""
    taken: list[PublishedProbes] = []
    original = settling.published_probes

    def spy(*given: Any) -> PublishedProbes:
        taken.append(original(*given))
        return taken[-1]

    monkeypatch.setattr(settling, "published_probes", spy)
    partition = await Partition(pipeline_of(Offset(20.0), Form(Offset(-60.0)))).feed(records(200))
    names = partition.pipeline.index.names
    errors: dict[Any, list[float]] = defaultdict(list)
    widths: dict[Any, list[float]] = defaultdict(list)
    holding: dict[Any, list[bool]] = defaultdict(list)
    for each in taken:
        probes, answers = each.probes, each.answers
        for cell in range(len(answers)):
            age = next((place for place, most in enumerate(GAP_AGES) if probes.gap_age[cell] <= most), len(GAP_AGES))
            group = names[probes.group[probes.window[cell]]]
            position = Place(answers.place[cell]).name.lower()
            key = (int(answers.step[cell]) // STRETCH, group, f"s{answers.sensor[cell]}", position, GAP_AGE_NAMES[age])
            baseline = "interpolation" if answers.place[cell] in (Place.INTERIOR, Place.ROW_INTERIOR) else "last_value"
            truth = float(probes.truth[cell])
            by_method = {
                "model": answers.values[cell, Expert.MODEL],
                "gaussian": answers.values[cell, Expert.GAUSSIAN],
                baseline: answers.values[cell, Expert.BASELINE],
                "published": each.blended[cell],
            }
            for method, value in by_method.items():
                if np.isfinite(value):
                    errors[(*key, method)].append(abs(float(value) - truth))
            if np.isfinite(each.lower[cell]):
                widths[key].append(float(each.upper[cell] - each.lower[cell]))
                holding[key].append(bool(each.lower[cell] <= truth <= each.upper[cell]))
    found = documents(partition.records)
    seen = 0
    for document in found.values():
        for figures in document["sensors"]:
            key = (stretch_of(document), document["group"], figures["sensor"], figures["position"], figures["gap_age"])
            for method, figure in figures["methods"].items():
                assert figure["count"] == len(errors[(*key, method)])
                assert figure["mae"] == pytest.approx(np.mean(errors[(*key, method)]), rel=1e-8)
                seen += figure["count"]
            assert figures["intervals"] == len(widths[key])
            assert figures["coverage"] == pytest.approx(np.mean(holding[key]))
            assert figures["width"] == pytest.approx(np.mean(widths[key]), rel=1e-8)
    last = max(stretch_of(each) for each in found.values())
    assert seen == sum(len(each) for key, each in errors.items() if key[0] <= last) > 1000


async def test_the_probes_group_is_the_one_whose_reading_was_hidden() -> None:
    """Each group's readings differ from the others' by far, so a wrong name would show in the truth."""
    partition = Partition(pipeline_of(Offset(0.0)))
    topic = records(60, groups=3)
    truths: dict[tuple[str, str, int], float] = {}
    for record in topic:
        document = json.loads(record.value or b"")
        truths[document["group"], document["sensor"], int(document["ts"]) // STEP_MS] = document["value"]
    checked = 0
    for start in range(0, len(topic), 31):
        applied = partition.pipeline.apply(partition.windows, topic[start : start + 31], now_ms=10**9)
        for probes in applied.probes:
            for window, sensor, step, lag, truth in zip(
                probes.window, probes.sensor, probes.step, probes.lag, probes.truth, strict=True
            ):
                group = partition.pipeline.index.names[probes.group[window]]
                assert truths[group, f"s{sensor}", int(step - lag)] == pytest.approx(truth)
                checked += 1
    assert checked > 200


@pytest.mark.parametrize(
    "killed_at", [160, 191, 192, *(pytest.param(each, marks=pytest.mark.slow) for each in (193, 239))]
)
async def test_a_worker_that_took_over_publishes_the_same_records(killed_at: int) -> None:
    """Wherever in a stretch its predecessor was killed; 192 begins one."""
    topic = records(300)
    ended = next(place for place, record in enumerate(topic) if f'"ts": {killed_at * 1000}' in str(record.value))
    first = await Partition(pipeline_of(Drifting(), Form(Offset(-60.0)))).feed(topic[:ended])
    begin = first.windows.rebuild_from(ended)
    assert begin > 0, "it has forgotten something"
    successor = await (await first.rebuilt(topic[begin:ended])).feed(topic[ended:])
    went_on = await Partition(first.pipeline).feed(topic)
    assert documents(first.records) | documents(successor.records) == documents(went_on.records)
    assert len(documents(successor.records)) >= 3


async def test_regret_names_the_method_that_would_have_been_best() -> None:
    """The closed form is exact, the model off by 200; once that is known the blend follows the form."""
    partition = await Partition(pipeline_of(Offset(200.0), Form(Offset(0.0)))).feed(records(300))
    found = sorted(documents(partition.records).values(), key=lambda each: each["from"])
    assert {each["regret"]["best"] for each in found} == {"gaussian"}
    early, late = found[0]["regret"], found[-1]["regret"]
    assert early["scaled_mae"]["model"] > 1.0 > early["scaled_mae"]["gaussian"]
    assert early["share"] > late["share"] >= 0.0
    share = 1 - early["scaled_mae"]["gaussian"] / early["scaled_mae"]["published"]
    assert early["share"] == pytest.approx(share, rel=1e-6)


async def test_without_a_model_the_published_values_are_still_judged() -> None:
    partition = await Partition(pipeline_of(AWAY)).feed(records(120))
    figures = [each for document in documents(partition.records).values() for each in document["sensors"]]
    assert figures
    assert all(set(each["methods"]) <= {"interpolation", "last_value", "published"} for each in figures)
    assert {each["regret"]["best"] for each in documents(partition.records).values()} == {"baseline"}


def test_a_group_has_a_bounded_number_of_keys() -> None:
    keys = {key_of("g", source, index) for source in ("hidden", "late") for index in range(-5, 10 * SLOTS)}
    assert len(keys) == MOST_KEYS_A_GROUP == 60


@pytest.mark.parametrize("group", ["<img src=x onerror=alert(1)>", "\u202egnp", "a\nb", '["', "x" * 249, "grüße"])
def test_a_key_gives_back_its_group_whatever_it_is_called(group: str) -> None:
    assert group_of_key(key_of(group, "late", 7)) == group
    assert group_of_key(b"pump-7") is None


async def test_the_counters_grow_by_what_the_records_say() -> None:
    def counted(name: str, **labels: str) -> float:
        found = [sample for metric in REGISTRY.collect() for sample in metric.samples if sample.name == f"{name}_total"]
        return sum(each.value for each in found if labels.items() <= each.labels.items())

    def read() -> np.ndarray:
        source = {"model": "m", "source": "hidden"}
        return np.array(
            [
                counted("glaim_quality_cells", **source),
                counted("glaim_quality_intervals", **source),
                counted("glaim_quality_intervals_holding", **source),
                counted("glaim_quality_compared", model="m", method="published"),
                counted("glaim_quality_scaled_error", model="m", method="published"),
                counted("glaim_quality_scaled_error", model="m", method="baseline"),
            ]
        )

    before = read()
    found = documents((await Partition(pipeline_of(Offset(20.0))).feed(records(200))).records).values()
    cells, intervals, held, compared, published, baseline = read() - before
    figures = [each for document in found for each in document["sensors"]]
    assert cells == sum(each["methods"]["published"]["count"] for each in figures) > 500
    assert intervals == sum(each["intervals"] for each in figures)
    assert held == pytest.approx(sum(each["coverage"] * each["intervals"] for each in figures if each["intervals"]))
    regrets = [each["regret"] for each in found]
    assert compared == sum(each["count"] for each in regrets)
    for total, method in ((published, "published"), (baseline, "baseline")):
        assert total == pytest.approx(sum(each["scaled_mae"][method] * each["count"] for each in regrets), rel=1e-6)
    assert baseline == pytest.approx(compared), "its mean is 1 by definition"
