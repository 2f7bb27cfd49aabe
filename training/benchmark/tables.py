"""The pages made of the lines: the paper's tables, cell by cell, with what we measured and what is still empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from training.benchmark import paper
from training.benchmark.cells import ABLATED, ABLATIONS, PAPER_WIDTH, SENSITIVE, SIZES
from training.benchmark.datasets import DATASETS
from training.benchmark.lines import Line

PAGE = Path(__file__).parents[1] / "results" / "paper.md"
EMPTY = ""

INTRODUCTION = """# The paper's tables, with our own numbers beside them

Errors are MSE / MAE over hidden cells only, standardised by the training part. Windows of 96 steps, stride 1, over all
test rows; validation and test windows may begin up to 96 rows before their part, as is the convention of the field. ETT
is split 12/4/4 months. The hidden cells of a test window depend on data set, pattern, rate, window length and index
alone. Blocks: 2 to 16 segments a sensor, lengths a uniformly random composition. Weather keeps its -9999, its double
stamp and its hole, as the paper must have had them; every row is one step.

An empty cell was not run. A training marked `+` has not come to its end: its line is what its best weights score so
far, and is replaced when it goes on. `paper` and `paper's best baseline` are what the paper prints; interpolation and
last value are ours, on the very same hidden cells. The ratio is our MSE over the paper's: under 1 is better than the
paper. Under 0.01 the paper's third decimal is a coarse measure, and ours are given with four.

Recipes: `paper` is Adam at a constant rate, batches of 16, at most 300 epochs, patience 30, seed 2021, no averaging.
`ours` takes twice that rate after a warm-up, follows a cosine, averages the weights and clips gradients, and takes far
fewer iterations: its epochs are of its own length (`training/benchmark/cells.py`). D is the hidden dimension; the
paper's tables have 128. `-eN` marks a trial of N epochs. Each line's own command stands in `paper.jsonl`.
"""


def page(lines: Sequence[Line], extra: Iterable[str] = ()) -> str:
    """The whole page, every table of the paper in its order.

    Args:
        lines: As kept in paper.jsonl.
        extra: Further sections, already written.
    """
    sections = [INTRODUCTION]
    for pattern in ("random", "block"):
        sections.append(
            _accuracy(f"{pattern.capitalize()} missing", lines, pattern, pattern, paper.RATES, shifted=False)
        )
    for pattern in ("random", "block"):
        title = f"Missing-rate shift, {pattern}: trained at 0.3"
        sections.append(_accuracy(title, lines, "shift", pattern, paper.RATES, shifted=True))
    sections += [_ablation(lines), _sensitivity(lines), _sampler(lines), *extra]
    return "\n".join(section for section in sections if section)


def errors(mse: float | None, mae: float | None) -> str:
    """`0.093 / 0.160`, or what of it there is."""
    return " / ".join(shown(value) for value in (mse, mae) if value is not None)


def shown(value: float) -> str:
    """Three decimals, or four below 0.01; a figure of the paper keeps its three."""
    return f"{value:.4f}" if value < 0.01 and round(value, 3) != value else f"{value:.3f}"


def ratio(line: Line) -> str:
    """Our MSE over the paper's."""
    return f"{line['mse'] / line['paper_mse']:.2f}" if line["paper_mse"] else EMPTY


def grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _order(line: Line) -> tuple[str, int, int]:
    return line["recipe"], line["d_model"], line["seed"]


def _select(lines: Sequence[Line], wanted: Callable[[Line], bool]) -> list[Line]:
    return sorted((line for line in lines if wanted(line)), key=_order)


def _training(line: Line) -> list[str]:
    """Recipe, D, seed, epochs, machine and date of a line."""
    epochs = f"{line['epochs']}{'' if line['finished'] else '+'}"
    return [line["recipe"], str(line["d_model"]), epochs, f"{line['seconds'] / 60:.0f}", line["machine"], line["date"]]


TRAINING = ["recipe", "D", "epochs", "minutes", "machine", "date"]


def _accuracy(
    title: str, lines: Sequence[Line], table: str, pattern: str, rates: Sequence[float], *, shifted: bool
) -> str:
    """One of the four full tables: a row a data set and rate, and one more for each further recipe."""
    rows: list[list[str]] = []
    ratios: list[float] = []
    for dataset in DATASETS:
        for rate in rates:
            glaim = paper.glaim(pattern, dataset, rate, shifted=shifted)
            rival = paper.best_baseline(pattern, dataset, rate, shifted=shifted)
            printed = errors(glaim.mse, glaim.mae) if glaim else EMPTY
            rivals = f"{errors(rival.mse, rival.mae)} {rival.model}" if rival else EMPTY
            found = _select(
                lines,
                lambda line, d=dataset, r=rate: (  # type: ignore[misc]
                    (line["table"], line["pattern"], line["dataset"], line["test_rate"]) == (table, pattern, d, r)
                ),
            )
            head = [dataset, f"{rate:g}", printed]
            for line in found:
                ours = [errors(line["mse"], line["mae"]), ratio(line), rivals]
                bars = [errors(line[f"{name}_mse"], line[f"{name}_mae"]) for name in ("interpolation", "last_value")]
                rows.append([*head, *ours, *bars, *_training(line)])
                ratios += [line["mse"] / line["paper_mse"]] if line["paper_mse"] else []
            if not found:
                rows.append([*head, EMPTY, EMPTY, rivals, *[EMPTY] * 8])
    header = ["data set", "rate", "paper", "ours", "ratio", "paper's best baseline", "interpolation", "last value"]
    under = sum(value <= 1 for value in ratios)
    note = f"{len(ratios)} rows run, {under} of them at or under the paper's MSE.\n" if ratios else "Nothing run yet.\n"
    return f"## {title}\n\n{grid([*header, *TRAINING], rows)}\n{note}"


def _ablation(lines: Sequence[Line]) -> str:
    """MSE of the variants: paper beside ours, trained on blocks at 0.3, mean of the test rates 0.1, 0.3, 0.5."""
    variants = ["full", *ABLATIONS]
    families = sorted({_order(line) for line in lines if line["table"] == "ablation"})
    header = ["data set", "whose", *variants, "epochs", "date"]
    rows = []
    for dataset in ABLATED:
        printed = [paper.ablation(dataset, variant) for variant in variants]
        rows.append([dataset, "paper", *(EMPTY if p is None else f"{p:.3f}" for p in printed), EMPTY, EMPTY])
        for family in families:
            found = {
                line["variant"]: line
                for line in lines
                if line["table"] == "ablation" and line["dataset"] == dataset and _order(line) == family
            }
            if not found:
                continue
            cells = [f"{found[v]['mse']:.3f}" if v in found else EMPTY for v in variants]
            epochs = ", ".join(
                f"{found[v]['epochs']}{'' if found[v]['finished'] else '+'}" for v in variants if v in found
            )
            dates = max(line["date"] for line in found.values())
            rows.append([dataset, f"ours ({family[0]}, D {family[1]})", *cells, epochs, dates])
    note = "MSE, trained on blocks at 0.3, mean of the test rates 0.1, 0.3 and 0.5. Epochs in the order of the columns."
    return f"## Ablations\n\n{grid(header, rows)}\n{note}\n"


def _sensitivity(lines: Sequence[Line]) -> str:
    """MSE of ETTh1 and Weather under random missingness for other widths, depths and large kernels."""
    usable = [
        line
        for line in lines
        if line["pattern"] == "random" and line["dataset"] in SENSITIVE and line["table"] in ("random", "sensitivity")
    ]
    header = [
        "varied",
        "value",
        "recipe",
        "D",
        *(f"{d} {r:g}" for d in SENSITIVE for r in paper.RATES),
        "mean",
        "paper",
    ]
    rows = []
    asked = [("d_model", width, "full") for width in (64, PAPER_WIDTH, 256)]
    asked += [(next(iter(change)), next(iter(change.values())), variant) for variant, change in SIZES.items()]
    for name, value, variant in asked:
        printed = paper.figures()["sensitivity"][name].get(str(value))
        shown = EMPTY if printed is None else f"{printed:.4f}"
        same = [line for line in usable if line["variant"] == variant and line[name] == value]
        families = sorted({_order(line)[:2] for line in same})
        for recipe, width in families or [(EMPTY, EMPTY)]:
            found = {
                (line["dataset"], line["test_rate"]): line["mse"]
                for line in same
                if _order(line)[:2] == (recipe, width)
            }
            cells = [found.get((d, r)) for d in SENSITIVE for r in paper.RATES]
            known = [cell for cell in cells if cell is not None]
            mean = f"{sum(known) / len(cells):.4f}" if len(known) == len(cells) else EMPTY
            texts = [EMPTY if cell is None else f"{cell:.4f}" for cell in cells]
            rows.append([name, str(value), str(recipe), str(width), *texts, mean, shown])
    note = (
        "MSE under random missingness. The paper prints only the mean of all eight cells; ours stands when all eight "
        "were run. Its reference is D = 128, two layers, a large kernel of 71."
    )
    return f"## Sensitivity to width, depth and kernel\n\n{grid(header, rows)}\n{note}\n"


def _sampler(lines: Sequence[Line]) -> str:
    """The same weights under other readings of the block sampler."""
    found = [line for line in lines if line["table"] == "sampler"]
    if not found:
        return ""
    found.sort(
        key=lambda line: (list(DATASETS).index(line["dataset"]), line["test_rate"], line["segments"], _order(line))
    )
    header = ["data set", "rate", "segments", "ours", "interpolation", "last value", "paper", "recipe", "D", "epochs"]
    rows = []
    for line in found:
        bars = [errors(line[f"{name}_mse"], line[f"{name}_mae"]) for name in ("interpolation", "last_value")]
        name = [line["dataset"], f"{line['test_rate']:g}", "{}..{}".format(*line["segments"])]
        ours, printed = errors(line["mse"], line["mae"]), errors(line["paper_mse"], line["paper_mae"])
        rows.append([*name, ours, *bars, printed, *_training(line)[:3]])
    note = (
        "The paper divides the hidden steps of a sensor into several segments and does not say how many. The weights "
        "were trained with 2..16; only the test masks change. The paper's figure is that of its own, unknown sampler."
    )
    return f"## The block sampler's number of segments\n\n{grid(header, rows)}\n{note}\n"
