"""The transcription of the paper's tables is consistent: its averages follow from its cells."""

import pytest

from benchmarks.paper import published
from benchmarks.paper.datasets import DATASETS

SECTIONS = ("random", "block", "random_shift", "block_shift")
# A printed figure is off by at most half of its last digit, and so is the printed mean of four of them.
ROUNDING = 0.001 + 1e-9


@pytest.mark.parametrize("name", SECTIONS)
def test_every_model_has_every_cell(name: str) -> None:
    table = published.figures()[name]
    assert set(table["cells"]) == {name for name, each in DATASETS.items() if not each.columns}  # slices are ours
    for rates in table["cells"].values():
        assert set(rates) == {"0.1", "0.3", "0.5", "0.7"}
        for row in rates.values():
            assert len(row) == len(table["models"])
            assert all(min(pair) > 0 for pair in row)


@pytest.mark.parametrize("name", ["random", "block"])
def test_averages_over_the_rates_match_the_printed_ones(name: str) -> None:
    table, main = published.figures()[name], published.figures()[f"main_{name}"]
    for dataset, rates in table["cells"].items():
        for number, model in enumerate(table["models"]):
            for metric in (0, 1):
                mean = sum(row[number][metric] for row in rates.values()) / len(rates)
                assert mean == pytest.approx(table["average"][dataset][number][metric], abs=ROUNDING)
                if model in main[dataset]:
                    assert main[dataset][model][metric] == table["average"][dataset][number][metric]


@pytest.mark.parametrize("name", ["random_shift", "block_shift"])
def test_averages_over_the_data_sets_match_the_printed_ones(name: str) -> None:
    table = published.figures()[name]
    for rate, printed in table["average"].items():
        for number, model in enumerate(table["models"]):
            for metric in (0, 1):
                cells = [rates[rate][number][metric] for rates in table["cells"].values()]
                assert sum(cells) / len(cells) == pytest.approx(printed[number][metric], abs=ROUNDING)
            if name == "block_shift" and model in published.figures()["main_shift"]:
                assert published.figures()["main_shift"][model][rate] == printed[number][0]


def test_the_shift_tables_agree_with_the_matched_rate() -> None:
    for pattern in ("random", "block"):
        for dataset in DATASETS:
            assert published.glaim(pattern, dataset, 0.3) == published.glaim(pattern, dataset, 0.3, shifted=True)


def test_the_full_model_of_the_ablation_is_the_mean_of_three_shift_rows() -> None:
    for dataset in ("ETTh1", "ETTh2", "ETTm1", "ETTm2", "Exchange", "Illness"):
        rows = [published.glaim("block", dataset, rate, shifted=True) for rate in published.ABLATION_RATES]
        mean = sum(row.mse for row in rows if row) / len(rows)
        assert mean == pytest.approx(published.ablation(dataset, "full"), abs=ROUNDING)


def test_known_cells_and_their_best_baselines() -> None:
    assert published.glaim("block", "Illness", 0.3) == published.Figure("GLAIM", 0.093, 0.160)
    assert published.best_baseline("random", "ETTh1", 0.1) == published.Figure("SAITS", 0.022, 0.101)
    assert published.glaim("block", "Beijing", 0.3) is None
    assert published.best_baseline("block", "ETTh1", 0.4) is None
    assert published.ablation("Weather", "full") is None
