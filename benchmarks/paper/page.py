"""The page beside the result lines, made from the lines alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper import cell_table, draws, efficiency, form_means, lines, peers_table, stability, studies, tables
from benchmarks.paper.lines import Line
from benchmarks.paper.simple import table as simple_table

INTRODUCTION = """# The paper's tables, with our own numbers beside them

Errors are MSE / MAE over hidden cells only, standardised by the training part. Windows of 96 steps, stride 1, over all
test rows; validation and test windows may begin up to 96 rows before their part, as is the convention of the field. ETT
is split 12/4/4 months. The hidden cells of a test window depend on data set, pattern, rate, window length and index
alone; those of validation are fixed too, although the paper draws new ones each epoch. Blocks: 2 to 16 segments a
sensor, lengths a uniformly random composition. Weather keeps its -9999, its double stamp and its hole, as the paper
must have had them; every row is one step. Electricity-64 is not the paper's Electricity: the first 64 sensors of its
first 1,000 rows, split 700/100/200.

An empty cell was not run. `paper` and `paper's best baseline` are what the paper prints; everything else is ours, on
the same hidden cells, in the mean over draws of the test masks where there are several (± their deviation, and how
many). The first draw is that of the networks alone. The ratio is our MSE over the paper's: under 1 is better than the
paper. Under 0.01 the paper's third decimal is coarse, so ours have four.

- `GLAIM alone` is the network as in the paper, one training a cell. Its trainings and further recipes have sections of
  their own below; their scores at other rates are in `paper.jsonl`.
- `closed form` is no network: a Gaussian conditional mean, fitted in seconds, once for each data set and from its
  training rows alone, for all patterns and rates, with the same constants for all data sets.
- `over it` is GLAIM over the closed form (recipe `cascade`; its MSE): windows arrive filled by it, and one training
  serves all patterns and rates of a data set. Of several widths or lengths the largest counts.
- `blend` is what this recipe gives: closed form, network, and network without the closed form, with one set of weights
  from validation windows. A line's `blend` and `parts_mse` in `paper.jsonl` have the weights and each answer's error.

Data sets of which nothing was run are left out. The last three are made for no rate, so the tables of the shift have
their ratios only.

Recipes of the trainings: `paper` is Adam at a constant rate, batches of 16, at most 300 epochs, patience 30, seed 2021,
no averaging. `ours` takes twice that rate after a warm-up, follows a cosine, averages the weights and clips gradients,
and takes far fewer iterations: its epochs have a different length (`benchmarks/paper/cells.py`). `residual` is that,
and the network corrects the prior instead of replacing it (`model.residual`). `mixed` is `residual` with a mask rate
drawn for every batch, from 0.1 to 0.7: it is trained at every rate that it is tested at. D is the hidden dimension; the
paper's tables have 128. `-eN` marks a trial of N epochs, and a `+` a training that is not finished: its line has the
score of its best weights so far, and is replaced when the training continues. Minutes are of training alone.
"""

# Title, and the table and pattern of its lines.
ACCURACY = (
    ("Random missing", "random", "random"),
    ("Block missing", "block", "block"),
    ("Missing-rate shift, random: trained at 0.3", "shift", "random"),
    ("Missing-rate shift, block: trained at 0.3", "shift", "block"),
)


def write(results: Path) -> Path:
    """Write the page beside the lines; return its path."""
    page = results.with_suffix(".md")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text(lines.read(results), results.parent))
    return page


def text(found: Sequence[Line], folder: Path) -> str:
    """Return the page: every table of the paper in its order.

    Args:
        found: The lines of paper.jsonl.
        folder: Holds the lines of draws, peers, stability, efficiency and the imputers that need no network.
    """
    letters = tables.machines(found)
    forms = [line for line in found if line["recipe"] == form_means.RECIPE]
    cascades = largest([line for line in found if form_means.is_cascade(line)])
    trainings = [line for line in found if line["recipe"] == form_means.CASCADE]
    found = [line for line in found if line["recipe"] != form_means.RECIPE and not form_means.is_cascade(line)]
    every = cell_table.CellLines(found, forms, cascades)
    sections = [
        ("At a glance", cell_table.glance(every)),
        *((title, cell_table.text(table, pattern, every)) for title, table, pattern in ACCURACY),
        ("Imputers that need no network", simple_table.section(folder)),
        *(
            (f"Trainings of the network alone: {title}", tables.runs(table, pattern, found, letters))
            for title, table, pattern in ACCURACY
            if table != "shift"
        ),
        ("Ablations", studies.ablation(found)),
        ("Sensitivity to width, depth and kernel", studies.sensitivity(found)),
        ("The block sampler's number of segments", studies.sampler(found)),
        ("The draw of the hidden cells", draws.section(folder)),
        ("Peers, trained by us", peers_table.section(folder, [*found, *forms, *trainings])),
        ("Stability of the dependencies", stability.section(folder)),
        ("Efficiency", efficiency.section(folder)),
    ]
    body = [f"## {title}\n\n{section}" for title, section in sections if section]
    return "\n".join([INTRODUCTION, _provenance(found, letters), *body])


def largest(cascades: Sequence[Line]) -> list[Line]:
    """Keep, of each data set, the lines of a full training before those of a trial, then of the widest network."""
    kept: dict[str, list[Line]] = {}
    for line in sorted(
        cascades, key=lambda line: (line["recipe"] == form_means.CASCADE, line["d_model"], line["seed"])
    ):
        same = kept.setdefault(line["dataset"], [])
        if same and tables.family(same[0]) != tables.family(line):
            same.clear()
        same.append(line)
    return [line for lines_of_set in kept.values() for line in lines_of_set]


def _provenance(found: Sequence[Line], letters: dict[str, str]) -> str:
    """Describe the machines and the form of the commands; every line of paper.jsonl has its own."""
    if not found:
        return ""
    where = "\n".join(f"- machine {letter}: {name}" for name, letter in letters.items())
    marks = sorted({f"--d-model {line['d_model']} --recipe {line['recipe'].split('-')[0]}" for line in found})
    how = "\n".join(f"- `python -m benchmarks.paper {mark}`" for mark in [*marks, "closed-form", "cascade"])
    return (
        f"{where}\n\nCommands; `--only <data set>/<pattern>/<rate>` names a single cell, and each line of\n"
        f"`paper.jsonl` has its own:\n\n{how}\n"
    )
