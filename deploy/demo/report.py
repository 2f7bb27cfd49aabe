"""The report demo-output/report.html: one self-contained page."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from deploy.demo import bars, error_tables, panels
from deploy.demo.measure import Measured
from deploy.demo.scenario import Scenario
from deploy.demo.score import contenders, gain_percent
from deploy.demo.summary import KIND_LABELS, MEANING, Summary
from glaim_stream.core.drawing import KEY_BAND, element, key_circle, key_line, legend, number
from glaim_stream.core.pages import cards, document

_CSS = Path(__file__).with_name("report.css")


def write_report(summary: Summary, measured: Measured, scenario: Scenario, file: Path) -> None:
    """Write the page."""
    file.write_text(page(summary, measured, scenario))


def page(summary: Summary, measured: Measured, scenario: Scenario) -> str:
    """The page as HTML."""
    body = "".join(
        [
            _header(summary),
            _numbers(summary),
            _way(summary, scenario),
            _panels(measured, scenario),
            _errors(summary, measured),
            _footer(summary),
        ]
    )
    return document(f"glaim-stream: {summary.title}", body, css=_CSS.read_text())


def _header(summary: Summary) -> str:
    machine = summary.machine
    speed = f"{summary.speed:,.0f} times real time" if summary.speed else "at full speed"
    where = escape(f"{machine['cores']} cores, {machine['cpu']}")
    meta = f"{summary.date} · {speed} · {where} · <code>{escape(summary.command)}</code>"
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in [*summary.notes, *summary.problems])
    return (
        f'<header><p class="name">glaim-stream</p><h1>{escape(summary.title)}: holes filled live</h1>'
        f'<p class="soft">{escape(summary.detail)}. {summary.hidden:,} readings were deliberately withheld; this page '
        f'compares them with the values that the stream filled in.</p><p class="meta">{meta}</p></header>{notes}'
    )


def _numbers(summary: Summary) -> str:
    filled = sum(count for name, count in summary.filled.items() if name != "none")
    percent = gain_percent(summary.mae)
    better = math.isfinite(percent) and percent < 0
    numbers = [
        ("", f"{summary.readings_in:,}", f"readings in, {summary.readings_per_second:,.0f} a second"),
        ("bad" if summary.lost else "good", f"{summary.lost:,} lost",
         f"{summary.readings_out:,} out, {summary.dead_letters:,} dead letters, according to the audit"),
        ("", f"{filled:,}", f"of {summary.holes:,} holes filled: {_methods(summary)}"),
        ("good" if better else "bad", f"{abs(percent):.0f} %",
         f"{'less' if better else 'more'} error than the better baseline, on hidden values"),
        ("", f"{summary.latency_ms['p50']:,.0f} ms",
         f"median latency from topic to topic; 99th percentile {summary.latency_ms['p99']:,.0f} ms"),
    ]  # fmt: skip
    return cards([(value, label) for _, value, label in numbers], [kind for kind, _, _ in numbers])


def _methods(summary: Summary) -> str:
    counts = {name.replace("_", " "): count for name, count in summary.filled.items() if name != "none"}
    parts = [f"{count:,} by {name}" for name, count in counts.items() if count]
    too_old = summary.filled.get("none", 0)
    return ", ".join(parts) + (f"; {too_old:,} not filled because the gap was too old" if too_old else "")


def _way(summary: Summary, scenario: Scenario) -> str:
    model = scenario.model
    stops = [
        ("Sensors", f"{len(scenario.source.groups)} groups of {len(model.sensors)} sensors"),
        ("Kafka", f"<code>sensor-readings</code>, {summary.readings_in:,} messages"),
        ("Worker", f"decodes, keeps windows of {model.window} steps, closes each step by event time"),
        ("Model", f"{escape(model.name)} on {escape(_server(summary))}: fills the holes of all groups in one call"),
        ("Kafka", f"<code>imputed-readings</code>, {summary.rows_out:,} rows as Arrow"),
        (
            "You",
            f"<code>{escape(Path(summary.arrow_file).name)}</code>, {summary.arrow_rows:,} rows: the newest value of "
            "each cell",
        ),
    ]
    inner = "".join(f"<li><b>{name}</b>{does}</li>" for name, does in stops)
    return f'<section id="way"><h2>How a reading travels</h2><ol class="way">{inner}</ol></section>'


def _server(summary: Summary) -> str:
    return "Triton" if summary.imputer.startswith("Triton") else "TorchScript in the worker"


def _panels(measured: Measured, scenario: Scenario) -> str:
    unit_of = {sensor.id: sensor.unit for sensor in scenario.model.sensors}
    figures = "".join(
        f"<figure><figcaption>{escape(each.sensor)} "
        f"{''.join(_section(each.for_size(size), unit_of[each.sensor], size) for size in panels.SIZES)}</figcaption>"
        f"{''.join(panels.draw(each.for_size(size), unit_of[each.sensor], size) for size in panels.SIZES)}</figure>"
        for each in panels.choose(measured)
    )
    level = f"{measured.interval_level:.0%} interval" if measured.interval_level else "interval"
    keys = [
        (key_line("observed"), "observed"),
        (key_circle("truth"), "hidden: never sent"),
        (KEY_BAND + key_line("filled"), f"filled, with its {level}"),
        (key_line("straight"), "interpolation"),
    ]
    return (
        '<section id="sensors"><h2>Observed, hidden, filled</h2>'
        '<p class="soft">Each chart shows the section of a sensor with the most hidden values, regardless of how well '
        f"they were filled. Filled values are final ones, made {scenario.model.revise_after} steps later.</p>"
        f'<p class="soft">{_bands(measured)}</p>'
        f"{legend(keys)}{figures}</section>"
    )


def _section(panel: panels.Panel, unit: str, size: panels.Size) -> str:
    moment = datetime.fromtimestamp(int(panel.times_ms[0]) / 1000, UTC)
    day = f"{moment.day} {moment:%B %Y}"
    return f'<span class="{size.name}">{escape(unit)} · {escape(panel.group)}, {day}</span>'


def _bands(measured: Measured) -> str:
    """Describe the shaded band around a filled value."""
    if measured.interval_level is None:
        return "A band around the filled values shows how far the true value may lie from them."
    level = f"{measured.interval_level:.0%}"
    share = measured.interval_coverage["final"]
    found = f" Of the values hidden here, {share:.0%} do." if math.isfinite(share) else ""
    return (
        f"The shaded band around filled values is their {level} interval: {level} of the true values should lie inside "
        f"it, so a wide band marks a value that is less certain.{found}"
    )


def _errors(summary: Summary, measured: Measured) -> str:
    labelled = [
        ("final value", measured.final),
        ("first estimate, newest step", measured.provisional),
        *((f"final: {KIND_LABELS[kind]}", part) for kind, part in measured.by_kind.items()),
    ]
    bar_keys = (
        (element("rect", class_=f"bar {name}", x=2, y=2, width=24, height=10), label)
        for name, label in contenders(summary.mae).items()
    )
    return (
        '<section id="errors"><h2>Errors compared with other methods</h2>'
        '<p class="soft">Mean absolute error on the same hidden cells, in standard deviations of each sensor, so that '
        "sensors can be averaged; shorter is better. The others ran in the same pipeline on the same records.</p>"
        f"{legend(bar_keys)}<figure>{bars.draw(labelled)}{bars.draw_narrow(labelled)}</figure>"
        '<p class="soft">The same errors by sensor, in its own unit. The percentages compare the model with the better '
        "baseline.</p>"
        f'<div class="scroll">{error_tables.wide(measured.final, measured.provisional)}'
        f"{error_tables.narrow(measured.final, measured.provisional)}</div></section>"
    )


def _footer(summary: Summary) -> str:
    seconds = ", ".join(f"{name} {number(took, 2)} s" for name, took in summary.seconds.items())
    definitions = "".join(f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>" for name, meaning in MEANING.items())
    return (
        f"<footer><h2>What the numbers mean</h2><dl>{definitions}</dl>"
        f'<p class="meta">Time by phase: {escape(seconds)}. '
        f"<code>summary.json</code> contains all numbers.</p></footer>"
    )
