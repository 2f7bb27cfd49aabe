"""Live accuracy beside `training.evaluate`: the same model, stations and hours, and holes of the same kind.

Beijing's test part, whose gaps are real, is streamed with nothing withheld. Live accuracy hides readings of its own,
the offline score hides others, in windows of the same hours. Alike are the first estimate of one silent sensor, and
that of a group of which nothing came; live accuracy has more of the second kind, so the kinds are compared apart.

The metrics of the same run are compared with the sums over the records.
"""

import asyncio
from collections import defaultdict

import numpy as np
import pytest
from numpy.typing import NDArray

from deploy.cache import CHECKOUT
from glaim_stream.build import create_pipeline
from glaim_stream.core.contract import read_contract
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import moment_ms
from glaim_stream.form import ClosedForm
from glaim_stream.imputers import Windows
from glaim_stream.imputers.local import LocalImputer
from glaim_stream.windows import STRETCH
from tests.data_sets import DATA_SETS
from tests.output.quality.streams import Partition, documents
from tests.output.quality.sums import assert_metrics_agree, coverage_by_position, pooled_regret, print_regret, scraped
from tests.support import Record, json_record

DATA = DATA_SETS / "beijing_multisite.parquet"
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.slow,  # quicker: tests/output/quality/test_records.py
    pytest.mark.skipif(not DATA.is_file(), reason=f"no {DATA.name} in the folder that GLAIM_DATA names"),
]

NAME, HOURS, MOST = "beijing-air", 700, 3000
KINDS = {"edge": "edge_one", "row_edge": "edge_all"}  # positions of live accuracy, and cases of training.evaluate
METHODS = ("model", "gaussian", "last_value")
Doubles = NDArray[np.float64]


def stream(
    values: Doubles, times_ms: NDArray[np.int64], groups: tuple[str, ...], sensors: tuple[str, ...]
) -> list[Record]:
    out: list[Record] = []
    for step, ts in enumerate(times_ms.tolist()):
        for group, name in enumerate(groups):
            known = np.flatnonzero(np.isfinite(values[group, :, step])).tolist()
            row = {sensors[place]: float(values[group, place, step]) for place in known}
            if row:
                out.append(json_record(len(out), group=name, ts=ts, values=row))
    return out


async def test_live_figures_are_those_of_the_offline_score_and_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glaim_stream.pipeline.pipeline.FEWEST_WINDOWS", 32)  # probes at a step, so that they suffice
    evaluate = pytest.importorskip("training.evaluate", reason="torch is not installed")
    from training.config import read
    from training.data import WindowSet, fit_scale, load, split

    config = read(CHECKOUT / "training" / "configs" / f"{NAME}.toml")
    series = load(config.data, DATA)
    repository = CHECKOUT / "model_repo"
    contract = read_contract(repository / NAME)
    scale = fit_scale(split(series, config.data, contract.window).train)
    values, times_ms = series.values[:, :, -HOURS:].astype(np.float64), series.times_ms[-HOURS:]

    # Offline.
    local = LocalImputer(repository, {NAME: contract})

    def by_model(standardised: NDArray[np.float32], observed: NDArray[np.bool_]) -> NDArray[np.float32]:
        units = np.where(observed, standardised * scale.std[:, None] + scale.mean[:, None], 0.0)
        newest = asyncio.run(local.impute(Windows(NAME, units, observed, contract.emitted_steps))).values[:, :, -1:]
        out = np.where(observed, standardised, np.float32(0))
        out[:, :, -1:] = (newest - scale.mean[:, None]) / scale.std[:, None]
        return out

    fills = {"model": by_model, "last_value": evaluate.BASELINES["last_value"]}
    windows = WindowSet(scale.apply(series.values[:, :, -HOURS:]), contract.window, 1)
    cases = tuple(case for case in evaluate.CASES if case.name in KINDS.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "CASES", cases)
        offline = await asyncio.to_thread(
            evaluate.evaluate, windows, fills, series.sensors, scale, most=MOST, seed=3,
            form=ClosedForm.load(repository / NAME), times_ms=times_ms,
        )  # fmt: skip

    # Live.
    settings = Settings(
        catalogue=CHECKOUT / "deploy" / "catalogues" / "beijing.yaml", model_repository=repository,
        imputer="local", quality_topic="quality",
    )  # fmt: skip
    pipeline, ladder = create_pipeline(settings, quality=True)
    partition = Partition(pipeline, now_ms=int(times_ms[-1]) + 1)
    # Some steps after the last stretch that is over, the metrics have almost the same cells as the records.
    stretch_ms = STRETCH * int(times_ms[1] - times_ms[0])
    over_ms = int(times_ms[-1]) // stretch_ms * stretch_ms
    until = int(np.searchsorted(times_ms, over_ms)) + 3
    topic = stream(values[:, :, :until], times_ms[:until], series.groups, series.sensors)
    await partition.feed(topic, batch=500)
    await ladder.close()
    counted, found = scraped(NAME), list(documents(partition.records).values())
    assert max(moment_ms(each["to"]) for each in found) == over_ms
    sums: dict[tuple[str, str, str], Doubles] = defaultdict(lambda: np.zeros(2))
    every = by_row = 0
    for document in found:
        for figures in document["sensors"]:
            count = figures["methods"]["published"]["count"]
            every, by_row = every + count, by_row + count * figures["position"].startswith("row")
            if figures["gap_age"] == "1":
                for method, figure in figures["methods"].items():
                    added = figure["count"] * np.array([1, figure["mae"]])
                    sums[figures["position"], method, figures["sensor"]] += added

    print(f"hidden cells of steps at which the whole group is hidden: {by_row / every:.2f} of {every}")
    for position, case in KINDS.items():
        for method in METHODS:
            of_sensor = [sums[position, method, sensor] for sensor in series.sensors]
            live = float(np.mean([each[1] / each[0] / std for each, std in zip(of_sensor, scale.std, strict=True)]))
            figures = offline[case]["methods"][method]["sensors"]
            expected = float(np.mean([figures[sensor]["mae"] for sensor in series.sensors]))
            cells = int(sum(each[0] for each in of_sensor)), sum(each["cells"] for each in figures.values())
            print(f"{position}, {method}: live {live:.4f} of {cells[0]}, offline {expected:.4f} of {cells[1]}")
            assert min(cells) > 1000
            assert live == pytest.approx(expected, rel=0.1)

    # The metrics have what the records add up to.
    assert_metrics_agree(counted, found, rel=0.03)

    for without, most in (("", 0.93), ("RAIN", 0.92)):  # rain is mostly 0, and an interval around 0 always holds that
        by_position = coverage_by_position(found, without=without)
        for position, (coverage, intervals) in by_position.items():
            print(f"{position}{without and f' without {without}'}: coverage {coverage:.4f} of {intervals}")
            assert intervals > 10_000
            assert 0.88 <= coverage <= most, "docs/quality.md"
        every = sum(intervals for _, intervals in by_position.values())
        assert 0.88 <= sum(coverage * intervals for coverage, intervals in by_position.values()) / every <= 0.92

    regret, means, count = pooled_regret(found)
    print_regret(regret, means, count)
    assert count > 20_000
    assert regret < 0, "what is published is better than every method alone"
