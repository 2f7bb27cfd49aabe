"""The paper's studies as tables: ablations and sensitivity to sizes; and our study of the block sampler."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.paper import published
from benchmarks.paper.cells import ABLATED, ABLATIONS, PAPER_WIDTH, SENSITIVE, SIZES
from benchmarks.paper.datasets import DATASETS
from benchmarks.paper.lines import Line
from benchmarks.paper.tables import BARS, EMPTY, epochs, errors, family, grid, recipe


def ablation(lines: Sequence[Line]) -> str:
    """Tabulate the MSE of the variants: trained on blocks at 0.3, mean of the test rates 0.1, 0.3, 0.5."""
    variants = ["full", *ABLATIONS]
    mine = [line for line in lines if line["table"] == "ablation"]
    rows = []
    for dataset in ABLATED:
        printed = [published.ablation(dataset, variant) for variant in variants]
        rows.append([dataset, "paper", *(EMPTY if mse is None else f"{mse:.3f}" for mse in printed), EMPTY, EMPTY])
        for key in sorted({family(line) for line in mine}):
            found = {line["variant"]: line for line in mine if line["dataset"] == dataset and family(line) == key}
            if found:
                first = next(iter(found.values()))
                cells = [shown_or_empty(found.get(variant)) for variant in variants]
                trained = ", ".join(epochs(found[variant]) for variant in variants if variant in found)
                date = max(line["date"] for line in found.values())
                rows.append([dataset, f"ours ({recipe(first)}, D {key[1]})", *cells, trained, date])
    note = "MSE, trained on blocks at 0.3, mean of the test rates 0.1, 0.3 and 0.5. Epochs in the order of the columns."
    header = ["data set", "whose", *(name.replace("no_", "without ") for name in variants), "epochs", "date"]
    return f"{grid(header, rows)}\n{note}\n"


def shown_or_empty(line: Line | None) -> str:
    """Format a line's MSE; empty without a line."""
    return EMPTY if line is None else errors(line["mse"], None)


def sensitivity(lines: Sequence[Line]) -> str:
    """Tabulate the MSE of ETTh1 and Weather under random missingness for other widths, depths and large kernels."""
    usable = [
        line
        for line in lines
        if line["table"] in ("random", "sensitivity") and line["pattern"] == "random" and line["dataset"] in SENSITIVE
    ]
    points = [("d_model", width, "full") for width in (64, PAPER_WIDTH, 256)]
    points += [(name, value, variant) for variant, change in SIZES.items() for name, value in change.items()]
    rows = []
    for name, value, variant in points:
        printed = published.figures()["sensitivity"][name].get(str(value))
        same = [line for line in usable if line["variant"] == variant and line[name] == value]
        keys: list[tuple[str, int, int] | None] = [*sorted({family(line) for line in same})]
        for key in keys or [None]:
            found = {(line["dataset"], line["test_rate"]): line for line in same if family(line) == key}
            cells = [found.get((dataset, rate)) for dataset in SENSITIVE for rate in published.RATES]
            errors_of = [line["mse"] for line in cells if line is not None]
            mean = f"{sum(errors_of) / len(cells):.4f}" if len(errors_of) == len(cells) else EMPTY
            mark = [EMPTY, EMPTY] if key is None else [key[0], str(key[1])]
            texts = [EMPTY if line is None else f"{line['mse']:.4f}" for line in cells]
            rows.append([name, str(value), *mark, *texts, mean, EMPTY if printed is None else f"{printed:.4f}"])
    note = (
        "MSE under random missingness. The paper prints only the mean of all eight cells; ours stands where all eight\n"
        "were run. Its reference is D = 128, two layers, a large kernel of 71."
    )
    columns = [f"{dataset} {rate:g}" for dataset in SENSITIVE for rate in published.RATES]
    return f"{grid(['varied', 'value', 'recipe', 'D', *columns, 'mean', 'paper'], rows)}\n{note}\n"


def sampler(lines: Sequence[Line]) -> str:
    """Tabulate the same weights under other block samplers; empty if none was tried."""
    tried = [line for line in lines if line["table"] == "sampler"]
    if not tried:
        return ""
    own = [
        line
        for line in lines
        if line["table"] == "block"
        and any(family(line) == family(other) and _cell(line) == _cell(other) for other in tried)
    ]
    order = list(DATASETS)
    found = sorted([*tried, *own], key=lambda line: (order.index(line["dataset"]), line["test_rate"], line["segments"]))
    rows = []
    for line in found:
        bars = [errors(line[f"{name}_mse"], line[f"{name}_mae"]) for name in BARS]
        head = [line["dataset"], f"{line['test_rate']:g}", "{} to {}".format(*line["segments"])]
        ours, printed = errors(line["mse"], line["mae"]), errors(line["paper_mse"], line["paper_mae"])
        rows.append([*head, ours, *bars, printed, recipe(line), str(line["d_model"]), epochs(line)])
    header = ["data set", "rate", "segments", "ours", "interpolation", "last value", "paper", "recipe", "D", "epochs"]
    note = (
        "The paper divides the hidden steps of a sensor into several segments and does not say how many. The weights\n"
        "were trained with 2 to 16; only the test masks change. The paper's figure is that of its own sampler."
    )
    return f"{grid(header, rows)}\n{note}\n"


def _cell(line: Line) -> tuple[str, float]:
    return line["dataset"], line["train_rate"]
