"""Parts shared by the tables, and the table of trainings of networks alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.paper import published
from benchmarks.paper.cells import SEED
from benchmarks.paper.datasets import DATASETS
from benchmarks.paper.lines import Line

EMPTY = ""
FAR = 1.1  # a larger excess over the paper needs an explanation
BARS = ("interpolation", "last_value")
BAR_NAMES = ("interpolation", "last value")
TRAINING = ("recipe", "D", "epochs", "minutes", "machine", "date")


def errors(mse: float | None, mae: float | None) -> str:
    """Format MSE and MAE as `0.093 / 0.160`, or the one that exists."""
    return " / ".join(shown(value) for value in (mse, mae) if value is not None)


def shown(value: float) -> str:
    """Format with three decimals, or four below 0.01; a figure of the paper keeps three."""
    return f"{value:.4f}" if value < 0.01 and round(value, 3) != value else f"{value:.3f}"


def grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def family(line: Line) -> tuple[str, int, int]:
    """Return the values that lines must share to be averaged or compared: recipe, width and seed."""
    return line["recipe"], line["d_model"], line["seed"]


def recipe(line: Line) -> str:
    """Return the recipe, with the seed if it is not the paper's."""
    return str(line["recipe"]) if line["seed"] == SEED else f"{line['recipe']}, seed {line['seed']}"


def epochs(line: Line) -> str:
    """Format the number of epochs, with `+` if the training is not finished."""
    return f"{line['epochs']}{'' if line['finished'] else '+'}"


def machines(lines: Sequence[Line]) -> dict[str, str]:
    """Return the letter of each machine in the tables."""
    return {name: chr(ord("a") + index) for index, name in enumerate(sorted({line["machine"] for line in lines}))}


def training(line: Line, letters: dict[str, str]) -> list[str]:
    """Return the columns TRAINING of a line."""
    minutes = f"{line['seconds'] / 60:.0f}"
    return [recipe(line), str(line["d_model"]), epochs(line), minutes, letters[line["machine"]], line["date"]]


def runs(table: str, pattern: str, lines: Sequence[Line], letters: dict[str, str]) -> str:
    """Return the trainings of networks alone: a row for each data set, test rate and recipe, and a summary.

    Args:
        table: `random` or `block`, as in the lines.
        pattern: `random` or `block`.
        lines: All lines of networks.
        letters: Letters of the machines.
    """
    mine = [line for line in lines if (line["table"], line["pattern"]) == (table, pattern)]
    rows: list[list[str]] = []
    for dataset in DATASETS:
        ours = sorted((line for line in mine if line["dataset"] == dataset), key=_place)
        for line in ours:
            head = [dataset, f"{line['test_rate']:g}", errors(line["paper_mse"], line["paper_mae"])]
            rows.append([*head, errors(line["mse"], line["mae"]), _ratio(line), *training(line, letters)])
        rows += _means(dataset, pattern, ours)
    if not rows:
        return ""
    return f"{grid(['data set', 'rate', 'paper', 'ours', 'ratio', *TRAINING], rows)}\n{_verdict(mine)}"


def _place(line: Line) -> tuple[float, tuple[str, int, int]]:
    return line["test_rate"], family(line)


def _ratio(line: Line) -> str:
    return f"{line['mse'] / line['paper_mse']:.2f}" if line["paper_mse"] else EMPTY


def _means(dataset: str, pattern: str, lines: Sequence[Line]) -> list[list[str]]:
    """Return the mean over the four rates, as in the paper's main tables, if all four were run in the same way."""
    rows = []
    for key in sorted({family(line) for line in lines}):
        four = [line for line in lines if family(line) == key]
        printed = [published.glaim(pattern, dataset, line["test_rate"]) for line in four]
        known = [figure for figure in printed if figure is not None]
        if len(four) < len(published.RATES) or len(known) < len(four):
            continue
        mse, mae = (sum(line[name] for line in four) / len(four) for name in ("mse", "mae"))
        theirs = published.mean(known)
        head = [f"**{dataset}**", "**mean**", errors(*(round(value, 3) for value in theirs))]
        mark = [recipe(four[0]), str(four[0]["d_model"]), *[EMPTY] * (len(TRAINING) - 2)]
        rows.append([*head, f"**{errors(mse, mae)}**", f"{mse / theirs[0]:.2f}", *mark])
    return rows


def _verdict(lines: Sequence[Line]) -> str:
    """Summarise the rows that were run: the number at or below the paper, and those far above it."""
    compared = [line for line in lines if line["paper_mse"]]
    # A printed 0.002 means anything up to 0.0025: a value that rounds to the paper's figure is not above it.
    under = sum(round(line["mse"], 3) <= line["paper_mse"] for line in compared)
    far = [
        f"{line['dataset']} {line['test_rate']:g} ({_ratio(line)}, {recipe(line)}, epochs {epochs(line)})"
        for line in compared
        if line["mse"] > FAR * line["paper_mse"] and round(line["mse"], 3) > line["paper_mse"]
    ]
    says = f"{len(compared)} rows run, {under} of them at or under the paper's MSE to its three decimals"
    return f"{says}; more than 10 % above it: {', '.join(far) or 'none'}.\n"
