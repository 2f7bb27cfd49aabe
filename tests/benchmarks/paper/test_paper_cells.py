import dataclasses

import pytest

from benchmarks.paper.cells import ABLATIONS, SIZES, PaperCell, cells, config, matches, places
from benchmarks.paper.datasets import DATASETS
from training.config import TrainSpec
from training.data import MaskSpec
from training.network import build_network, count_parameters


def test_the_recipe_of_the_paper_has_its_settings() -> None:
    run = config(PaperCell("Weather", "random", 0.7))
    assert run.train == TrainSpec(epochs=300, batch_size=16, learning_rate=3e-4, patience=30, seed=2021)
    assert run.train.schedule == "constant"
    assert run.train.ema == run.train.clip_norm == run.train.warmup == 0
    assert run.masks == MaskSpec("random", rates=(0.7, 0.7))
    assert run.data.rows == (36887, 5270, 10539)
    assert run.data.history == 96
    assert (run.model.d_model, run.model.layers, run.model.large_kernel, run.model.d_g) == (128, 2, 71, 8)
    assert config(PaperCell("PEMS03", "block", 0.1)).model.d_g == 36
    assert config(PaperCell("ETTh1", "block", 0.1)).train.learning_rate == 1e-3


def test_every_place_has_one_cell_and_every_variant_a_different_network() -> None:
    wanted = list(cells(list(DATASETS), ["random", "block", "shift", "ablation", "sensitivity"]))
    assert len(wanted) == len({cell.name for cell in wanted}) == len(DATASETS) * 8 + 6 * 4 + 2 * 4 * 5
    filled = [(cell.dataset, cell.variant, cell.pattern, place) for cell in wanted for place in places(cell)]
    assert len(filled) == len(set(filled))
    sizes = {
        count_parameters(
            build_network(
                dataclasses.replace(PaperCell("ETTh1", "block", 0.3, variant, d_model=8).sizes, num_variables=3)
            )
        )
        for variant in ("full", *ABLATIONS, *SIZES)
    }
    assert len(sizes) == 1 + len(ABLATIONS) + len(SIZES)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("ETTh1/block/0.3", True),
        ("ETTh1", True),
        ("*/block", True),
        ("ETT*/*/0.3/no_*", True),
        ("ETTh1/random", False),
        ("ETTh", False),
        ("ETTh1/block/0.3/full", False),
        ("ETTh1/block/0.3/no_prior/more", False),
    ],
)
def test_patterns_name_cells_part_by_part(pattern: str, found: bool) -> None:
    cell = PaperCell("ETTh1", "block", 0.3, "no_prior")
    assert matches(cell, [pattern]) is found
    assert matches(cell, [])


def test_a_cells_command_repeats_the_cell() -> None:
    cell = PaperCell("ETTh1", "random", 0.3, "layers_3", d_model=64, recipe="ours", epochs=2)
    arguments = cell.command.split()
    assert arguments[:3] == ["python", "-m", "benchmarks.paper"]
    assert dict(zip(arguments[3::2], arguments[4::2], strict=True)) == {
        "--only": "ETTh1/random/0.3/layers_3",
        "--d-model": "64",
        "--recipe": "ours",
        "--tables": "sensitivity",
        "--epochs": "2",
    }


def test_the_residual_recipe_differs_from_ours_in_the_last_step_only() -> None:
    ours, residual = (config(PaperCell("Illness", "random", 0.3, recipe=recipe)) for recipe in ("ours", "residual"))
    assert residual.train == ours.train
    assert residual.model == dataclasses.replace(ours.model, residual=True)
    assert not config(PaperCell("Illness", "random", 0.3)).model.residual


def test_the_mixed_recipe_differs_from_the_residual_one_in_mask_rates_only() -> None:
    residual, mixed = (config(PaperCell("Illness", "block", 0.3, recipe=recipe)) for recipe in ("residual", "mixed"))
    assert mixed.masks == dataclasses.replace(residual.masks, rates=(0.1, 0.7))
    assert dataclasses.replace(mixed, name="", masks=residual.masks) == dataclasses.replace(residual, name="")
