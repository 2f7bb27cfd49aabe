"""The paper's four full tables, cell by cell: its figure, ours, and empty cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from training.benchmark import form_means, paper
from training.benchmark.cells import SEED
from training.benchmark.datasets import DATASETS
from training.benchmark.lines import Line

EMPTY = ""
FAR = 1.1  # a larger excess over the paper needs an explanation
BARS = ("interpolation", "last_value")
BAR_NAMES = ("interpolation", "last value")
FORM = ("closed form", "its ratio")
CASCADE = ("over it", "its ratio")
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
    """Return what must be equal to average or compare lines: recipe, width and seed."""
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


def accuracy(
    table: str, pattern: str, lines: Sequence[Line], letters: dict[str, str], forms: Sequence[Line] = (),
    cascades: Sequence[Line] = (),
) -> str:  # fmt: skip
    """Return one full table: one row for each data set, test rate and recipe, and a summary.

    Args:
        table: `random`, `block` or `shift`, as in the lines.
        pattern: `random` or `block`.
        lines: All lines of networks.
        letters: Letters of the machines.
        forms: All lines of the closed form.
        cascades: All lines of the network over it; without any the table has no column for it.
    """
    shifted = table == "shift"
    mine, closed, over = (
        [line for line in some if (line["table"], line["pattern"]) == (table, pattern)]
        for some in (lines, forms, cascades)
    )

    def beside(dataset: str, rate: float | None) -> list[str]:
        """Return the columns FORM, and CASCADE where there are lines; of the mean over the rates without a rate."""
        means = [
            form_means.of_rates(some, dataset, paper.RATES) if rate is None else form_means.of_cell(some, dataset, rate)
            for some in ([closed, over] if over else [closed])
        ]
        return [text for mean in means for text in _form(mean)]

    rows: list[list[str]] = []
    for dataset in DATASETS:
        ours = [line for line in mine if line["dataset"] == dataset]
        for rate in paper.RATES:
            glaim = paper.glaim(pattern, dataset, rate, shifted=shifted)
            rival = paper.best_baseline(pattern, dataset, rate, shifted=shifted)
            head = [dataset, f"{rate:g}", errors(glaim.mse, glaim.mae) if glaim else EMPTY]
            rivals = f"{errors(rival.mse, rival.mae)} {rival.model}" if rival else EMPTY
            form = beside(dataset, rate)
            found = sorted((line for line in ours if line["test_rate"] == rate), key=family)
            for line in found:
                bars = [errors(line[f"{name}_mse"], line[f"{name}_mae"]) for name in BARS]
                result = [errors(line["mse"], line["mae"]), _ratio(line), *form, rivals, *bars]
                rows.append([*head, *result, *training(line, letters)])
            if not found:
                rows.append([*head, EMPTY, EMPTY, *form, rivals, *[EMPTY] * (len(BARS) + len(TRAINING))])
        if not shifted:
            rows += _means(dataset, pattern, ours, beside(dataset, None))
    extra = [*FORM, *(CASCADE if over else [])]
    header = ["data set", "rate", "paper", "ours", "ratio", *extra, "paper's best baseline", *BAR_NAMES]
    return f"{grid([*header, *TRAINING], rows)}\n{_verdict(mine)}{form_means.summary(closed)}{form_means.summary(over)}"


def _form(mean: form_means.Mean | None) -> list[str]:
    """Return the two columns of a mean over draws."""
    if mean is None:
        return [EMPTY] * len(FORM)
    spread = f" (± {mean.deviation:.4f}, {mean.draws} draws)" if mean.draws > 1 else ""
    return [f"{errors(mean.mse, mean.mae)}{spread}", EMPTY if mean.ratio is None else f"{mean.ratio:.2f}"]


def _ratio(line: Line) -> str:
    return f"{line['mse'] / line['paper_mse']:.2f}" if line["paper_mse"] else EMPTY


def _means(dataset: str, pattern: str, lines: Sequence[Line], form: list[str]) -> list[list[str]]:
    """Return the mean over the four rates, as in the paper's main tables, if all four were run alike.

    `form` are the columns FORM and CASCADE.
    """
    rows = []
    for key in sorted({family(line) for line in lines}):
        four = [line for line in lines if family(line) == key]
        printed = [paper.glaim(pattern, dataset, line["test_rate"]) for line in four]
        known = [figure for figure in printed if figure is not None]
        if len(four) < len(paper.RATES) or len(known) < len(four):
            continue
        mse, mae = (sum(line[name] for line in four) / len(four) for name in ("mse", "mae"))
        theirs = sum(figure.mse for figure in known) / len(known), sum(figure.mae for figure in known) / len(known)
        bars = [errors(*(sum(line[f"{bar}_{m}"] for line in four) / len(four) for m in ("mse", "mae"))) for bar in BARS]
        head = [f"**{dataset}**", "**mean**", errors(*(round(value, 3) for value in theirs))]
        mark = [recipe(four[0]), str(four[0]["d_model"]), *[EMPTY] * (len(TRAINING) - 2)]
        rows.append([*head, f"**{errors(mse, mae)}**", f"{mse / theirs[0]:.2f}", *form, EMPTY, *bars, *mark])
    return rows


def _verdict(lines: Sequence[Line]) -> str:
    """Summarise the rows that were run: how many are at or below the paper, and which are far above it."""
    compared = [line for line in lines if line["paper_mse"]]
    if not compared:
        return "Nothing run yet.\n"
    # A printed 0.002 means anything up to 0.0025: a value that rounds to the paper's figure is not above it.
    under = sum(round(line["mse"], 3) <= line["paper_mse"] for line in compared)
    far = [
        f"{line['dataset']} {line['test_rate']:g} ({_ratio(line)}, {recipe(line)}, epochs {epochs(line)})"
        for line in compared
        if line["mse"] > FAR * line["paper_mse"] and round(line["mse"], 3) > line["paper_mse"]
    ]
    says = f"{len(compared)} rows run, {under} of them at or under the paper's MSE to its three decimals"
    return f"{says}; more than 10 % above it: {', '.join(far) or 'none'}.\n"
