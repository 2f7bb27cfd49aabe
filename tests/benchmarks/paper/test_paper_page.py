from pathlib import Path
from typing import Any

from benchmarks.paper import cell_table, published, tables
from benchmarks.paper.cells import PaperCell, TablePlace
from benchmarks.paper.lines import IDENTITY, Line, identity, put, read
from benchmarks.paper.run import identified, printed


def line(cell: PaperCell, place: TablePlace, mse: float, **other: Any) -> Line:
    """A result line as a run writes it, with the given error."""
    shown = printed(cell, place)
    return {
        **identified(cell, place), "mse": mse, "mae": 2 * mse, "paper_mse": shown[0], "paper_mae": shown[1],
        "interpolation_mse": 0.5, "interpolation_mae": 0.4, "last_value_mse": 0.9, "last_value_mae": 0.6,
        "epochs": 7, "finished": True, "seconds": 120.0, "machine": "an abacus (2 wires)", "date": "2026-11-21",
        **other,
    }  # fmt: skip


def row(text: str, *begin: str) -> list[str]:
    """The cells of the only row that begins with these."""
    found = [entry for entry in text.splitlines() if entry.startswith(f"| {' | '.join(begin)} |")]
    assert len(found) == 1, found
    return [cell.strip() for cell in found[0].strip("|").split("|")]


def test_the_table_of_the_shift_has_ratios_of_what_is_made_for_no_rate() -> None:
    cell = PaperCell("Illness", "block", 0.3)
    form = {**measured(cell, "closed_form", 0, 0.2), "table": "shift", "test_rate": 0.7, "paper_mse": 0.25}
    text = cell_table.text("shift", "block", cell_table.CellLines([], [form], []))
    assert row(text, "Illness", "0.7")[4:] == ["", "0.80", ""]
    assert row(text, "data set", "rate")[4:] == ["GLAIM alone", "closed form, ratio", "blend, ratio"]


def measured(cell: PaperCell, recipe: str, draw: int, mse: float, **other: Any) -> Line:
    """A line of the closed form or of the network over it."""
    return line(
        cell, TablePlace(cell.pattern, (cell.rate,)), mse, recipe=recipe, draw=draw, digest="d", choices=9, d_model=0,
        interpolation_mse=0.5 + draw / 10, **other,
    )  # fmt: skip


def test_a_cell_has_one_row_with_the_means_over_its_draws() -> None:
    cell = PaperCell("Illness", "block", 0.3)
    networks = [line(PaperCell("Illness", "block", 0.3, recipe=recipe), TablePlace("block", (0.3,)), mse)
                for recipe, mse in (("residual", 0.07), ("paper", 0.09), ("ours", 0.08))]  # fmt: skip
    forms = [measured(cell, "closed_form", draw, mse) for draw, mse in enumerate((0.04, 0.05))]
    over = [measured(cell, "cascade", 0, 0.035, parts_mse={"form": 0.04, "network": 0.036, "without_form": 0.06})]
    text = cell_table.text("block", "block", cell_table.CellLines(networks, forms, over))
    assert row(text, "Illness", "0.3")[3:] == [
        "0.404 / 0.392 TimesNet", "0.550 / 0.400", "0.900 / 0.600", "0.080 / 0.160",
        "0.045 / 0.090 ± 0.0071 (2)", "0.48", "0.036", "0.035 / 0.070", "0.38",
    ]  # fmt: skip
    assert row(text, "Illness", "0.5")[4:] == [""] * 8
    assert "**mean**" not in text


def test_the_mean_of_a_data_set_needs_all_four_rates() -> None:
    cells = [PaperCell("Illness", "random", rate) for rate in published.RATES]
    forms = [measured(cell, "closed_form", 0, cell.rate / 10) for cell in cells]
    assert "**mean**" not in cell_table.text("random", "random", cell_table.CellLines([], forms[:3], []))
    text = cell_table.text("random", "random", cell_table.CellLines([], forms, []))
    assert row(text, "**Illness**", "**mean**")[2:] == [
        "0.051 / 0.111", "", "", "", "", "0.040 / 0.080", "0.79", "", "", "",
    ]  # fmt: skip


def test_the_glance_has_geometric_means_of_the_ratios() -> None:
    cells = [PaperCell("Illness", pattern, rate) for pattern in ("random", "block") for rate in published.RATES]
    forms = [measured(cell, "closed_form", 0, published.glaim(cell.pattern, "Illness", cell.rate).mse * factor)  # type: ignore[union-attr]
             for cell, factor in zip(cells, [4.0, 1.0, 1.0, 0.25, *[0.5] * 4], strict=True)]  # fmt: skip
    text = cell_table.glance(cell_table.CellLines([], forms, []))
    assert row(text, "Illness")[1:] == ["1.00", "", "0.50", ""]
    assert "closed form 0.71 times the paper's MSE over 8 cells, 1 of them above it." in text
    assert row(cell_table.glance(cell_table.CellLines([], forms[1:], [])), "Illness")[1:] == ["", "", "0.50", ""]


def test_recipes_have_a_row_each_and_large_deviations_are_named() -> None:
    lines = [
        line(PaperCell("ETTh1", "random", 0.5, d_model=64, recipe="ours"), TablePlace("random", (0.5,)), 0.05),
        line(PaperCell("ETTh1", "random", 0.5, d_model=64), TablePlace("random", (0.5,)), 0.06, finished=False),
    ]
    text = tables.runs("random", "random", lines, tables.machines(lines))
    both = [entry for entry in text.splitlines() if entry.startswith("| ETTh1 | 0.5 |")]
    assert len(both) == 2
    assert "| ours | 64 | 7 |" in both[0]
    assert "| paper | 64 | 7+ |" in both[1]
    assert "2 rows run, 1 of them at or under" in text
    assert "more than 10 % above it: ETTh1 0.5 (1.20, paper, epochs 7+)." in text


def test_a_new_line_replaces_the_old_one_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "paper.jsonl"
    places = [TablePlace("block", (0.3,)), TablePlace("shift", (0.3,))]
    first = [line(PaperCell("Illness", "block", 0.3), place, 0.2) for place in places]
    put(file, first)
    put(file, [line(PaperCell("Illness", "block", 0.3, recipe="ours"), places[0], 0.3)])
    put(file, [{**first[0], "mse": 0.1}])
    assert [entry["mse"] for entry in read(file)] == [0.1, 0.2, 0.3]
    assert list(tmp_path.iterdir()) == [file]
    assert set(IDENTITY) - set(first[0]) == {"draw"}  # which only lines of the closed form have
    assert identity(first[0]) != identity(first[1])
