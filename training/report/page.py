"""report.html, one self-contained page. Pure: the numbers of report.json in, HTML out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from glaim_stream.core.drawing import number, ticks
from glaim_stream.core.pages import document
from training.report import matrix, panels, tables
from training.report.charts import METHODS, Axis, Line, dot_rows, line_chart, log_axis, method_legend, methods_of
from training.serve import FEW_WINDOWS

_CSS = Path(__file__).with_name("page.css")
_SECTIONS = {
    "scores": "Errors beside the baselines",
    "sensors": "Error per sensor",
    "gaps": "Gap length, interior and right edge",
    "examples": "What it looks like",
    "intervals": "Do the intervals hold?",
    "dependencies": "What the sensors take from each other",
    "curves": "Learning curves",
    "data": "Data and configuration",
}
_MOST_ROWS = 24  # rows of a dot chart; with more rows the tables are clearer

Report = Mapping[str, Any]


def page(report: Report) -> str:
    """Return the page for the result of `measure`, or for report.json."""
    make = {
        "scores": _scores, "sensors": _sensors, "gaps": _gaps, "examples": _examples, "intervals": _intervals,
        "dependencies": _dependencies, "curves": _curves, "data": _data,
    }  # fmt: skip
    links = "".join(f'<a href="#{name}">{words}</a>' for name, words in _SECTIONS.items())
    body = "".join(
        f'<section id="{name}"><h2>{words}</h2>{make[name](report)}</section>' for name, words in _SECTIONS.items()
    )
    return document(
        f"{report['run']}: training report", f"{_header(report)}<nav>{links}</nav>{body}", css=_CSS.read_text()
    )


def _header(report: Report) -> str:
    data, model, training = report["data"], report["model"], report["training"]
    parts = data["parts"]
    split = "; ".join(
        f"{name} {part['rows']:,} rows, {_day(part['first_ms'])} to {_day(part['last_ms'])}, "
        f"{_missing(part['missing'])}"
        for name, part in parts.items()
    )
    if data["history"]:
        split += f"; validation and test begin with {data['history']} rows of history"
    groups = f"{len(data['groups'])} groups of " if len(data["groups"]) > 1 else ""
    facts = {
        "data": f"{escape(data['source'])}: {groups}{len(data['sensors'])} sensors, {data['rows']:,} rows of "
        f"{duration(data['step_s'])}",
        "split": split,
        "model": f"GLAIM, {model['parameters']:,} parameters: d_model {model['d_model']}, {model['layers']} layers, "
        f"windows of {model['window']} steps; trained on {escape(model['masks'])} gaps",
        "training": f"{training['epochs']} epochs in {duration(training['seconds'])}, the best one "
        f"{training['best_epoch']}; {escape(report['machine'])}",
        "command": f"<code>{escape(report['command'] or 'not recorded')}</code>",
        "report": f"made {report['date']} in {duration(report['seconds'])}; code "
        f"<code>{escape(report['git_commit'][:12])}</code>; all numbers in <code>report.json</code>",
    }
    listed = "".join(f"<dt>{name}</dt><dd>{words}</dd>" for name, words in facts.items())
    warning = ""
    if data["sha256"] != data["trained_on_sha256"]:
        warning = (
            '<p class="warning">The data file is not the one that the model was trained on: its digest differs.</p>'
        )
    return (
        f'<header><h1>{escape(report["run"])}</h1><p class="verdict">{escape(report["verdict"]["sentence"])}</p>'
        f"{warning}<dl>{listed}</dl></header>"
    )


def _scores(report: Report) -> str:
    judged, methods = report["verdict"]["cases"], methods_of(report["cases"])
    rows = [
        (case["label"], {metric: {m: case["methods"][m][metric] for m in methods} for metric in ("mae", "mse")})
        for name, case in report["cases"].items()
        if name in judged
    ]
    charts = []
    for metric, words in (("mae", "MAE, deviations (log.)"), ("mse", "MSE, standardised (log.)")):
        axis = log_axis(words, [row[metric][m] for _, row in rows for m in methods])
        drawn = [(says, row[metric]) for says, row in rows]
        charts.append(f"<figure>{dot_rows(drawn, axis, f'{words}: every method in every case', left=232)}</figure>")
    level = f"{100 * report['verdict']['level']:.0f} %"
    return (
        '<p class="soft">Known cells of the test part are hidden and filled by every method; all methods fill the same '
        "cells, and cells missing in the data are never scored. Errors are in deviations of each sensor's training "
        f"values. The last two columns compare the model with the best baseline of that row: negative is better, and "
        f"differences below {level} count as level. A baseline without an observation takes the training mean. "
        "Windows overlap, so neighbouring ones are not independent evidence.</p>"
        f"{method_legend(methods, lines=False)}"
        f'<div class="charts">{"".join(charts)}</div>'
        f'<p class="soft">MSE / MAE, standardised; the best in bold.</p>{tables.cases(report)}'
    )


def _sensors(report: Report) -> str:
    cases, judged = report["cases"], report["verdict"]["cases"]
    named = methods_of(cases)
    units = {sensor["name"]: sensor["unit"] for sensor in report["data"]["sensors"]}
    figures = []
    if len(units) <= _MOST_ROWS:
        for name in [name for name in ("block_0.3", "edge_one") if name in judged] or list(judged)[:2]:
            methods = cases[name]["methods"]
            rows = [
                (
                    s,
                    {m: methods[m]["sensors"][s]["mae"] if methods[m]["sensors"][s]["cells"] else None for m in named},
                )
                for s in units
            ]
            axis = log_axis("mean absolute error, deviations (log.)", [v for _, r in rows for v in r.values() if v])
            says = escape(cases[name]["label"])
            chart = dot_rows(rows, axis, f"mean absolute error per sensor: {cases[name]['label']}")
            figures.append(f"<figure><figcaption><b>{says}</b></figcaption>{chart}</figure>")
    folded = "".join(
        tables.details(
            f"{escape(cases[name]['label'])}: every method, in sensor units",
            '<p class="soft">MAE in the sensor\'s unit; small: MAE / MSE, standardised.</p>'
            + tables.in_units(report, name),
        )
        for name in judged
    )
    shown = f'{method_legend(named, lines=False)}<div class="charts">{"".join(figures)}</div>' if figures else ""
    return (
        f"{shown}"
        '<p class="soft">The model\'s MAE against the best baseline of that sensor and case (blue: smaller error, '
        f"orange: larger); below it the model's MAE in the sensor's unit.</p>{tables.by_sensor(report)}{folded}"
    )


def _gaps(report: Report) -> str:
    found = report["gaps"]
    named = [(float(index), label) for index, label in enumerate(found["lengths"])]
    x = Axis("length of the gap, steps", -0.3, len(named) - 0.7, named)
    shown = [m for m in METHODS if m != "mean"]
    figures = []
    for who in ("one", "all"):
        for place in found["places"]:
            curve = found["curves"][who][place]
            values = [
                v
                for kind in ("one", "all")
                for p in found["places"]
                for m in shown
                for v in found["curves"][kind][p]["mae"][m]
            ]
            y = log_axis("MAE, deviations (log.)", [v for v in values if v])
            # The model last, on top.
            lines = [Line(m, [(float(i), v) for i, v in enumerate(curve["mae"][m])]) for m in reversed(shown)]
            words = f"{found['who'][who]}, {found['places'][place]}"
            chart = line_chart(lines, x, y, f"mean absolute error by gap length: {words}")
            figures.append(f"<figure><figcaption><b>{words}</b></figcaption>{chart}</figure>")
    tail = "".join(
        tables.details(
            f"{'right edge' if place == 'edge' else place}: each sensor by gap length",
            '<p class="soft">The model against the best baseline; below it the model\'s MAE in deviations. A random '
            "number of sensors is out.</p>" + tables.by_length(report, place),
        )
        for place in found["places"]
    )
    keys = {m: METHODS[m] for m in shown}
    return (
        f'<p class="soft">One gap at a time is hidden in {found["windows"]:,} test windows for each point; every step '
        "of it is scored. Interior: the sensor was observed on both sides. Right edge: the gap reaches the newest "
        "step, so last value and interpolation are equal. A hidden step beside a real gap counts with the length "
        f"of both.</p>{method_legend(keys)}"
        f'<div class="charts">{"".join(figures)}</div>'
        "<h3>Interior against right edge, per sensor</h3>"
        '<p class="soft">Gaps of all these lengths, in equal numbers, shared with a random number of the other '
        "sensors. MAE in the sensor's unit; small: in deviations.</p>"
        f"{tables.interior_and_edge(report)}{tail}"
        + tables.details("the numbers of the curves: MAE, small MSE, standardised", tables.gap_numbers(report))
    )


def _examples(report: Report) -> str:
    found = report["examples"]

    def figure(example: Report) -> str:
        unit = f" {escape(example['unit'])}" if example["unit"] else ""
        group = f"{escape(example['group'])}, " if len(report["data"]["groups"]) > 1 else ""
        return (
            f"<figure><figcaption><b>{escape(example['rule'])}</b>: {group}{escape(example['sensor'])}"
            f"{f' in{unit}' if unit else ''}, {_day(example['first_ms'])} to {_day(example['last_ms'])}; MAE "
            f"{number(example['mae_unit'])}{unit} ({number(example['mae'])} deviations), interpolation "
            f"{number(example['interpolation_mae_unit'])}{unit}</figcaption>{panels.panel(example)}</figure>"
        )

    def row(examples: Sequence[Report]) -> str:
        return f'<div class="charts">{"".join(figure(each) for each in examples)}</div>'

    rate = f"{100 * found['block_rate']:.0f} %"
    everyone = len(found["sensors"]) == len(report["data"]["sensors"])
    which = "every sensor" if everyone else f"{len(found['sensors'])} sensors, from the best to the worst"
    return (
        '<p class="soft">Chosen by a rule: a case is one sensor in one window; the cases are ranked by '
        "the model's error on their hidden cells, and four ranks are drawn, the worst included, "
        f"out of {found['windows']:,} windows spread evenly over groups and time. The other sensors of the window "
        "have gaps too in the first set, none in the second. The interval of a gap that reaches the newest step is "
        "that of the newest step at the same gap age; one that "
        "reaches far beyond the curves is cut by the frame.</p>"
        f"{panels.key()}<h3>Blocks, {rate} of each sensor: {found['blocks_cases']:,} cases</h3>{row(found['blocks'])}"
        f"<h3>Newest {found['tail_steps']} steps of one sensor: {found['edge_cases']:,} cases</h3>{row(found['edge'])}"
        + tables.details(f"the median case of {which}, blocks", row(found["sensors"]))
    )


def _intervals(report: Report) -> str:
    found = report["intervals"]
    nominal = found["nominal"]
    low, high = (f"{100 * level:g}" for level in found["levels"])
    ages = found["gap_ages"]
    kinds = {"several": "a random number of sensors out", "one": "one sensor out", "all": "whole group out"}
    shares, widths = [], []
    for place, words in (("interior", "interior"), ("edge", "newest step")):
        columns = {who: found["coverage"][who][place]["by_age"] for who in kinds}
        used = [i for i in range(len(ages)) if any(columns[who][i]["cells"] for who in kinds)]
        named = [(float(at), str(ages[i])) for at, i in enumerate(used)]
        x = Axis("gap age, steps since the last observation", -0.3, max(1, len(used)) - 0.7, named)
        lowest = min([each["inside"] for who in kinds for each in columns[who] if each["inside"] is not None] or [0.5])
        y = Axis("share inside the interval", min(0.5, lowest - 0.03), 1.0)
        lines = [
            Line(who, [(float(at), columns[who][i]["inside"]) for at, i in enumerate(used)]) for who in reversed(kinds)
        ]
        label = f"share of test values inside their interval by gap age: {words}"
        chart = line_chart(lines, x, y, label, reference=(nominal, f"nominal {100 * nominal:.0f} %"))
        shares.append(f"<figure><figcaption><b>{words}</b>: coverage</figcaption>{chart}</figure>")
        wide = [each["width"] for each in columns["several"] if each["width"] is not None]
        y = Axis("mean width, deviations", 0.0, 1.08 * max([*wide, 1e-9]))
        line = Line("several", [(float(at), columns["several"][i]["width"]) for at, i in enumerate(used)])
        chart = line_chart([line], x, y, f"mean width of the interval by gap age: {words}", height=200)
        widths.append(f"<figure><figcaption><b>{words}</b>: width</figcaption>{chart}</figure>")
    total = found["coverage"]["several"]
    inside = " and ".join(
        f"{tables.share(total[place]['inside'], 1)} of {total[place]['cells']:,} values {words}"
        for place, words in (("interior", "in the interior"), ("edge", "at the newest step"))
    )
    origin = (
        "taken from the exported model's contract"
        if found["source"] == "contract"
        else f"measured for this page on {found['windows']:,} windows for each gap age"
    )
    warning = ""
    if found["validation_windows"] < FEW_WINDOWS:
        warning = (
            f'<p class="warning">The validation part holds only {found["validation_windows"]} windows, too few to '
            "measure quantiles: a longer validation part, or windows that may begin before it (data.history), "
            "would give wider and more accurate intervals.</p>"
        )
    return (
        f"{warning}<p>Of the test part, {inside} lie inside the interval that a worker would publish; nominal: "
        f"{100 * nominal:.0f} %.</p>"
        f'<p class="soft">The interval of a value follows from the {low} and {high} % quantiles of truth minus '
        f"imputed on the <em>validation</em> part, per sensor and gap age ({origin}); here it is checked on gaps of "
        "the test part. The quantiles hold for a sensor that falls silent with a random number of others, so a single "
        "fault should lie above the line and a dark group below it. Below the line the intervals are too narrow, as "
        "after a drift; above it they are too wide.</p>"
        f'{method_legend(kinds)}<div class="charts">{"".join(shares)}{"".join(widths)}</div>'
        f"<h3>Per sensor, a random number of sensors out</h3>"
        f'<p class="soft">Width in the sensor\'s unit.</p>{tables.coverage_by_sensor(report)}'
        + tables.details("coverage by gap age, small: values", tables.coverage_by_age(report))
    )


def _dependencies(report: Report) -> str:
    found = report["dependencies"]
    if found is None:
        return '<p class="soft">This model has no StaGlo: it was trained without it.</p>'
    names = [sensor["name"] for sensor in report["data"]["sensors"]]
    alpha = found["alpha"]
    named = len(names) <= matrix.MOST_NAMES
    words = "row takes from column" + ("" if named else "; sensors numbered in their order in the data, below")
    strongest = "; ".join(
        f"{escape(each['to'])} from {escape(each['from'])} {number(each['weight'])}" for each in found["strongest"]
    )
    return (
        '<p class="soft">The dependency matrices G of the first StaGlo layer, averaged over all '
        f"{found['features']} features, not weighted. Each row holds the weights of the other sensors for its sensor; "
        f"rows sum to 1, and {number(found['uniform'])} everywhere would mean no preference. The share of this mixture "
        f"is alpha: {number(alpha['mean'])} on average over the features (from {number(alpha['smallest'])} to "
        f"{number(alpha['largest'])}), the rest is the sensor itself. The map is the same for every window; it "
        "shows what the model uses, not causes.</p>"
        f'<figure class="{"map" if named else "map wide"}"><figcaption>{words} {matrix.scale_key(found)}</figcaption>'
        f"{matrix.matrix(found, names)}</figure>"
        f"<p>Strongest, other than a sensor from itself: {strongest or 'none'}.</p>"
    )


def _curves(report: Report) -> str:
    history, best = report["curves"], report["training"]["best_epoch"]
    if not history:
        return '<p class="soft">The checkpoint holds no history.</p>'
    epochs = [float(line["epoch"]) for line in history]
    whole = [(tick, f"{tick:g}") for tick in ticks(min(epochs), max(epochs), 7) if tick == int(tick)]
    x = Axis("epoch", min(epochs) - 0.5, max(epochs) + 0.5, whole)
    keys = {"loss": "training loss", "validation_mse": "validation MSE"}
    values = [line.get(name) for name in keys for line in history]
    y = log_axis("error, standardised (log.)", [v for v in values if v])
    marks = len(history) <= 40
    lines = [Line(n, list(zip(epochs, [h.get(n) for h in history], strict=True)), marks) for n in keys]
    chart = line_chart(
        lines, x, y, "training loss and validation error by epoch", mark_x=(float(best), f"best: {best:g}")
    )
    maes = [line.get("validation_mae") for line in history]
    second = line_chart(
        [Line("model", list(zip(epochs, maes, strict=True)), marks)], x,
        log_axis("validation MAE (log.)", [v for v in maes if v]), "validation mean absolute error by epoch",
        mark_x=(float(best), f"best: {best:g}"),
    )  # fmt: skip
    spec = report["config"].get("train", {})
    extras = [
        f"plus {spec['mae_weight']:g} times the absolute error" if spec.get("mae_weight") else "",
        f"windows weighed by their hidden cells to the power of −{spec['balance']:g}" if spec.get("balance") else "",
    ]
    loss = ", ".join(["squared error on hidden cells", *filter(None, extras)])
    share = report["config"].get("model", {}).get("dropout")
    dropout = f", dropout {share:g}" if share else ""
    rates = [line.get("learning_rate") for line in history]
    known = [rate for rate in rates if rate]
    rate = ""
    if known:
        ends = f"{known[0]:.2g}" if known[0] == known[-1] else f"from {known[0]:.2g} to {known[-1]:.2g}"
        rate = f" Learning rate {ends}."
    return (
        f'<p class="soft">Training loss: {loss}, new gaps in every epoch{dropout}. Validation: squared error on '
        f"gaps that never change, with averaged weights if the run averages. This report scores the best epoch by "
        f"validation MSE.{rate}</p>{method_legend(keys)}"
        f'<div class="charts"><figure>{chart}</figure><figure>{second}</figure></div>'
    )


def _data(report: Report) -> str:
    config = json.dumps(report["config"], indent=2, ensure_ascii=False)
    data = report["data"]
    groups = ""
    if len(data["groups"]) > 1:
        groups = f'<p class="soft">Groups: {escape(", ".join(data["groups"]))}.</p>'
    return (
        f'{groups}<p class="soft">Mean and deviation are of the observed training values and standardise every part. '
        f"Digest of the file: <code>{data['sha256']}</code>.</p>"
        + tables.details(f"the {len(data['sensors'])} sensors and their real gaps", tables.sensors(report))
        + tables.details("configuration", f"<pre>{escape(config)}</pre>")
    )


def duration(seconds: float) -> str:
    """Format seconds in the largest unit that gives one or more: 600 -> 10 min."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _missing(share: float) -> str:
    return f"{tables.share(share, 1)} of the cells missing" if share else "no cell missing"


def _day(ms: int) -> str:
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return f"{moment.day} {moment:%b %Y}"
