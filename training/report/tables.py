"""The tables of the page: scores of all cases, each sensor beside the best baseline, and folded details. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from glaim_stream.core.drawing import number
from training.report.charts import METHODS, methods_of
from training.report.verdict import BASELINES, percent

FEW = 14  # tables with more rows are folded after their first rows
HEAD = 8

Row = Sequence[str]  # cells that are HTML already


def cases(report: Mapping[str, Any]) -> str:
    """Tabulate MSE and MAE of every method in every case, standardised."""
    methods = methods_of(report["cases"])
    heads = "".join(f"<th>{words}</th>" for words in methods.values())
    rows = []
    for name, case in report["cases"].items():
        if name not in report["verdict"]["cases"]:
            nothing = f'<td colspan="{len(methods) + 1}">nothing to hide</td>'
            rows.append(f"<tr><td>{escape(case['label'])}</td><td>0</td>{nothing}</tr>")
            continue
        judged = report["verdict"]["cases"][name]
        best = {metric: min(case["methods"][m][metric] for m in methods) for metric in ("mse", "mae")}
        cells = []
        for method in methods:
            score = case["methods"][method]
            shown = [f"<b>{number(score[k])}</b>" if score[k] <= best[k] else number(score[k]) for k in ("mse", "mae")]
            cells.append(f"<td>{' / '.join(shown)}</td>")
        rows.append(
            f"<tr><td>{escape(case['label'])}</td><td>{case['cells']:,}</td>{''.join(cells)}"
            f"{_gain(judged['mse'])}{_gain(judged['mae'])}</tr>"
        )
    return _scroll(
        f"<table><thead><tr><th>hidden</th><th>cells</th>{heads}<th>MSE</th><th>MAE</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def by_sensor(report: Mapping[str, Any]) -> str:
    """Tabulate each sensor's MAE in each case against its best baseline, with the model's error in its unit."""
    judged = report["verdict"]["cases"]
    heads = "".join(f"<th>{escape(case['label']).replace(' %', '&nbsp;%')}</th>" for case in judged.values())
    units = {sensor["name"]: sensor["unit"] for sensor in report["data"]["sensors"]}

    def row(sensor: str) -> str:
        cells = []
        for name in judged:
            scores = report["cases"][name]["methods"]["model"]["sensors"][sensor]
            unit = f"<small>{number(scores['mae_unit'])} {escape(units[sensor])}</small>" if scores["cells"] else ""
            cells.append(_gain(judged[name]["sensors"][sensor], unit))
        return f"<tr><td>{escape(sensor)}</td>{''.join(cells)}</tr>"

    def difficulty(sensor: str) -> float:
        found = [case["sensors"][sensor] for case in judged.values() if case["sensors"][sensor] is not None]
        return -sum(found) / len(found) if found else 0.0

    head = f"<thead><tr><th>sensor</th>{heads}</tr></thead>"
    return _folded(head, {sensor: row(sensor) for sensor in units}, sorted(units, key=difficulty), "heat",
                   "those that do worst beside their baselines")  # fmt: skip


def in_units(report: Mapping[str, Any], name: str) -> str:
    """Tabulate one case: every method's MAE of each sensor in its unit, and standardised."""
    methods, named = report["cases"][name]["methods"], methods_of(report["cases"])
    rows = []
    for sensor in report["data"]["sensors"]:
        scores = [methods[method]["sensors"][sensor["name"]] for method in named]
        if not scores[0]["cells"]:
            continue
        least = min(score["mae"] for score in scores)
        cells = "".join(
            f"<td{' class=best' if score['mae'] <= least else ''}>{number(score['mae_unit'])} "
            f"<small>{number(score['mae'])} / {number(score['mse'])}</small></td>"
            for score in scores
        )
        rows.append(
            f"<tr><td>{escape(sensor['name'])}</td><td>{escape(sensor['unit']) or '–'}</td>"
            f"<td>{scores[0]['cells']:,}</td>{cells}</tr>"
        )
    heads = "".join(f"<th>{words}</th>" for words in named.values())
    return _scroll(
        f'<table class="units"><thead><tr><th>sensor</th><th>unit</th><th>cells</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def interior_and_edge(report: Mapping[str, Any]) -> str:
    """Tabulate each sensor's error in the interior and at the right edge, in its unit and against the baseline."""
    found = report["gaps"]["sensors"]
    rows = {}
    for sensor in report["data"]["sensors"]:
        cells = []
        for place in ("interior", "edge"):
            each = found[sensor["name"]][place]
            if not each["cells"]:
                cells.append('<td colspan="4">–</td>')
                continue
            best = min(BASELINES, key=lambda method: each["mae"][method])
            cells.append(f"<td>{each['cells']:,}</td>")
            cells += [
                f"<td>{number(each['mae_unit'][method])} <small>{number(each['mae'][method])}</small></td>"
                for method in ("model", best)
            ]
            cells.append(_gain(each["mae"]["model"] / each["mae"][best] - 1 if each["mae"][best] else None))
        rows[sensor["name"]] = "".join(cells)
    return _interior_beside("right edge", ["cells", "model", "best baseline", ""], report, rows)


def _interior_beside(other: str, columns: Sequence[str], report: Mapping[str, Any], cells: Mapping[str, str]) -> str:
    """Make one row for each sensor with equal columns for the interior and `other`; `cells` are the <td>s by sensor."""
    heads = 2 * "".join(f"<th>{name}</th>" for name in columns)
    over = f'colspan="{len(columns)}" class="over"'
    head = (
        f'<thead><tr><th colspan="2"></th><th {over}>interior</th><th {over}>{other}</th></tr>'
        f"<tr><th>sensor</th><th>unit</th>{heads}</tr></thead>"
    )
    rows = {}
    for sensor in report["data"]["sensors"]:
        name, unit = escape(sensor["name"]), escape(sensor["unit"]) or "–"
        rows[sensor["name"]] = f"<tr><td>{name}</td><td>{unit}</td>{cells[sensor['name']]}</tr>"
    return _folded(head, rows, list(rows), "units", "the first ones")


def by_length(report: Mapping[str, Any], place: str) -> str:
    """Tabulate each sensor's MAE by gap length, the model's in deviations and against the best baseline."""
    gaps = report["gaps"]
    rows = []
    for name, found in gaps["sensors"].items():
        cells = []
        for column in range(len(gaps["lengths"])):
            maes = {m: values[column] for m, values in found[place]["mae_by_length"].items()}
            if maes["model"] is None:
                cells.append("<td>–</td>")
                continue
            best = min(maes[m] for m in BASELINES)
            count = f"<small>{number(maes['model'])}</small>"
            cells.append(_gain(maes["model"] / best - 1 if best else None, count))
        rows.append(f"<tr><td>{escape(name)}</td>{''.join(cells)}</tr>")
    heads = "".join(f"<th>{length}</th>" for length in gaps["lengths"])
    return _scroll(
        f'<table class="heat"><thead><tr><th>steps missing</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def gap_numbers(report: Mapping[str, Any]) -> str:
    """Tabulate the numbers of the curves by gap length."""
    gaps = report["gaps"]
    rows = []
    for who, places in gaps["curves"].items():
        for place, curve in places.items():
            for method, words in METHODS.items():
                cells = "".join(
                    f"<td>{number(mae)} <small>{number(mse)}</small></td>"
                    for mae, mse in zip(curve["mae"][method], curve["mse"][method], strict=True)
                )
                rows.append(
                    f"<tr><td>{escape(gaps['who'][who])}</td><td>{'right edge' if place == 'edge' else place}</td>"
                    f"<td>{words}</td>{cells}</tr>"
                )
            cells = "".join(f"<td>{count:,}</td>" for count in curve["cells"])
            rows.append(f"<tr><td></td><td></td><td>cells</td>{cells}</tr>")
    heads = "".join(f"<th>{length}</th>" for length in gaps["lengths"])
    return _scroll(
        '<table class="words3"><thead><tr><th>out</th><th>place</th><th>steps missing</th>'
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def coverage_by_sensor(report: Mapping[str, Any]) -> str:
    """Tabulate the share inside the interval and its mean width in the sensor's unit."""
    found = report["intervals"]["coverage"]["several"]
    rows = {}
    for sensor in report["data"]["sensors"]:
        cells = []
        for place in ("interior", "edge"):
            each = found[place]["by_sensor"][sensor["name"]]
            if not each["cells"]:
                cells.append("<td>0</td><td>–</td><td>–</td>")
                continue
            width = each["width"] * sensor["std"]
            cells.append(f"<td>{each['cells']:,}</td><td>{share(each['inside'])}</td><td>{number(width)}</td>")
        rows[sensor["name"]] = "".join(cells)
    return _interior_beside("newest step", ["values", "inside", "mean width"], report, rows)


def coverage_by_age(report: Mapping[str, Any]) -> str:
    """Tabulate the share inside by gap age, for each number of missing sensors."""
    intervals = report["intervals"]
    rows = []
    for who, places in intervals["coverage"].items():
        for place, found in places.items():
            cells = "".join(
                f"<td>{share(each['inside'])} <small>{each['cells']:,}</small></td>" for each in found["by_age"]
            )
            words = "newest step" if place == "edge" else place
            rows.append(
                f"<tr><td>{escape(report['gaps']['who'][who])}</td><td>{words}</td><td>{share(found['inside'])} "
                f"<small>{found['cells']:,}</small></td>{cells}</tr>"
            )
    heads = "".join(f"<th>{age}</th>" for age in intervals["gap_ages"])
    return _scroll(
        '<table class="units"><thead><tr><th>out</th><th>gap age, steps</th><th>all</th>'
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def sensors(report: Mapping[str, Any]) -> str:
    """Tabulate the data of each sensor."""
    rows = {}
    for sensor in report["data"]["sensors"]:
        missing = "".join(f"<td>{share(value, 1)}</td>" for value in sensor["missing"].values())
        rows[sensor["name"]] = (
            f"<tr><td>{escape(sensor['name'])}</td><td>{escape(sensor['unit']) or '–'}</td>"
            f"<td>{number(sensor['mean'], 4)}</td><td>{number(sensor['std'], 4)}</td>{missing}"
            f"<td>{sensor['longest_hole']:,}</td></tr>"
        )
    head = (
        '<thead><tr><th colspan="4"></th><th colspan="3" class="over">missing in the data</th><th></th></tr>'
        "<tr><th>sensor</th><th>unit</th><th>mean</th><th>deviation</th><th>training</th><th>validation</th>"
        "<th>test</th><th>longest hole, steps</th></tr></thead>"
    )
    return _scroll(f'<table class="units">{head}<tbody>{"".join(rows.values())}</tbody></table>')


def share(value: float | None, places: int = 0) -> str:
    """Format a share as percent."""
    return "–" if value is None else f"{100 * value:.{places}f} %"


def details(summary: str, body: str) -> str:
    """Return a section that is folded at first."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def _folded(head: str, rows: Mapping[str, str], order: Sequence[str], kind: str, which: str) -> str:
    """Show all rows if they are few; else the first of `order`, and all rows in their own order folded."""

    def table(names: Sequence[str]) -> str:
        return _scroll(f'<table class="{kind}">{head}<tbody>{"".join(rows[name] for name in names)}</tbody></table>')

    if len(rows) <= FEW:
        return table(list(rows))
    return f'<p class="soft">{HEAD} of {len(rows)} sensors, {which}:</p>{table(order[:HEAD])}' + details(
        f"all {len(rows)} sensors", table(list(rows))
    )


def _gain(difference: float | None, more: str = "") -> str:
    """Make a cell with a relative difference; its class grades it: g3 .. g1, level, b1 .. b3."""
    if difference is None:
        return f"<td>–{more}</td>"
    size = abs(difference)
    grade = "level" if size < 0.01 else f"{'g' if difference < 0 else 'b'}{1 if size < 0.1 else 2 if size < 0.3 else 3}"
    return f'<td class="{grade}">{percent(difference)}{more}</td>'


def _scroll(table: str) -> str:
    return f'<div class="scroll" tabindex="0">{table}</div>'
