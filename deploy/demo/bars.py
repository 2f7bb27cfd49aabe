"""Errors as a bar chart in SVG and as a table in HTML. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from deploy.demo.score import Score, SensorScore, contenders, gain_percent
from training.report.svg import Scale, element, number, text

_WIDTH, _LABEL, _ROOM = 1060, 250, 64
_BAR, _BETWEEN = 15, 16


def draw(scores: Sequence[tuple[str, Score]]) -> str:
    """One block of bars per labelled score, all with the same scale."""
    scores = [(label, each) for label, each in scores if each.cells]
    most = max((error for _, each in scores for error in each.mae.values()), default=1.0)
    x = Scale(0, most, _LABEL, _WIDTH - _ROOM)
    parts, top = [], 4
    for label, each in scores:
        names = contenders(each.mae)
        middle = top + _BAR * len(names) / 2
        parts.append(text(_LABEL - 14, middle, label, class_="label", text_anchor="end"))
        parts.append(text(_LABEL - 14, middle + 15, f"{each.cells:,} cells", class_="tick", text_anchor="end"))
        for name in names:
            error = each.mae[name]
            parts.append(
                element("rect", class_=f"bar {name}", x=_LABEL, y=top, width=x(error) - _LABEL, height=_BAR - 3, rx=2)
            )
            parts.append(text(x(error) + 7, top + 10, number(error), class_=f"value {name}"))
            top += _BAR
        top += _BETWEEN
    return element("svg", "".join(parts), class_="bars", viewBox=f"0 0 {_WIDTH} {top}", role="img", aria_label="errors")


def table(final: Score, provisional: Score) -> str:
    """Errors of each sensor in its own unit, for final values and for first estimates."""
    labels = contenders(final.mae).values()
    heads = "".join(f"<th>{label}</th>" for label in labels)
    span = len(labels) + 1
    rows = "".join(_row(one, other) for one, other in zip(final.sensors, provisional.sensors, strict=True) if one.cells)
    total = (
        f'<tr class="all"><td>all sensors</td><td>deviations</td><td>{final.cells:,}</td>'
        f"{_cells(final.mae)}{_gain(final.mae)}{_cells(provisional.mae)}{_gain(provisional.mae)}</tr>"
    )
    return (
        "<table><thead>"
        f'<tr><th colspan="3"></th><th colspan="{span}" class="over">final value</th>'
        f'<th colspan="{span}" class="over">first estimate, at the newest step</th></tr>'
        f"<tr><th>sensor</th><th>unit</th><th>hidden</th>{heads}<th></th>{heads}<th></th></tr></thead>"
        f"<tbody>{rows}{total}</tbody></table>"
    )


def _row(final: SensorScore, provisional: SensorScore) -> str:
    return (
        f"<tr><td>{escape(final.sensor)}</td><td>{escape(final.unit)}</td><td>{final.cells:,}</td>"
        f"{_cells(final.mae)}{_gain(final.mae)}{_cells(provisional.mae)}{_gain(provisional.mae)}</tr>"
    )


def _cells(mae: Mapping[str, float]) -> str:
    best = min(mae.values())
    shown = [mae[name] for name in contenders(mae)]
    return "".join(f"<td{' class=best' if error == best else ''}>{number(error)}</td>" for error in shown)


def _gain(mae: Mapping[str, float]) -> str:
    percent = gain_percent(mae)
    if percent != percent:
        return "<td>–</td>"
    return f'<td class="{"gain" if percent < 0 else "loss"}">{percent:+.0f} %</td>'.replace("-", "−")
