"""Errors by sensor as tables in HTML. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from deploy.demo.score import Score, SensorScore, contenders, gain_percent
from glaim_stream.core.drawing import number


def wide(final: Score, provisional: Score) -> str:
    """Errors of each sensor in its own unit, for final values and for first estimates: a row for each sensor."""
    labels = contenders(final.mae).values()
    heads = "".join(f"<th>{label}</th>" for label in labels)
    span = len(labels) + 1
    rows = "".join(
        f"<tr><td>{escape(one.sensor)}</td><td>{escape(one.unit)}</td>{_columns(one, other)}</tr>"
        for one, other in _pairs(final, provisional)
    )
    total = f'<tr class="all"><td>all sensors</td><td>deviations</td>{_columns(final, provisional)}</tr>'
    return (
        '<table class="wide"><thead>'
        f'<tr><th colspan="3"></th><th colspan="{span}" class="over">final value</th>'
        f'<th colspan="{span}" class="over">first estimate, at the newest step</th></tr>'
        f"<tr><th>sensor</th><th>unit</th><th>hidden</th>{heads}<th></th>{heads}<th></th></tr></thead>"
        f"<tbody>{rows}{total}</tbody></table>"
    )


def narrow(final: Score, provisional: Score) -> str:
    """The same for a phone: a block of rows for each sensor, a row for each method."""
    blocks = "".join(
        _block(f"{escape(one.sensor)} <span>{escape(one.unit)} · {one.cells:,} hidden</span>", one, other)
        for one, other in _pairs(final, provisional)
    )
    total = _block(f"all sensors <span>deviations · {final.cells:,} hidden</span>", final, provisional)
    return (
        '<table class="narrow"><thead><tr><th></th><th>final value</th><th>first estimate</th></tr></thead>'
        f"{blocks}{total}</table>"
    )


def _pairs(final: Score, provisional: Score) -> Iterator[tuple[SensorScore, SensorScore]]:
    for one, other in zip(final.sensors, provisional.sensors, strict=True):
        if one.cells:
            yield one, other


def _columns(one: Score | SensorScore, other: Score | SensorScore) -> str:
    shown = "".join("".join(_cells(each.mae).values()) + _gain(each.mae) for each in (one, other))
    return f"<td>{one.cells:,}</td>{shown}"


def _block(heading: str, one: Score | SensorScore, other: Score | SensorScore) -> str:
    first, second = _cells(one.mae), _cells(other.mae)
    rows = "".join(
        f"<tr><td>{label}</td>{first[name]}{second[name]}</tr>" for name, label in contenders(one.mae).items()
    )
    gain = f"<tr><td>difference</td>{_gain(one.mae)}{_gain(other.mae)}</tr>"
    return f'<tbody><tr><th colspan="3">{heading}</th></tr>{rows}{gain}</tbody>'


def _cells(mae: Mapping[str, float]) -> dict[str, str]:
    best = min(mae.values())
    return {
        name: f"<td{' class=best' if mae[name] == best else ''}>{number(mae[name])}</td>" for name in contenders(mae)
    }


def _gain(mae: Mapping[str, float]) -> str:
    percent = gain_percent(mae)
    if percent != percent:
        return "<td>–</td>"
    return f'<td class="{"gain" if percent < 0 else "loss"}">{percent:+.0f} %</td>'.replace("-", "−")
