"""Writes the Grafana dashboard: the layout and the JSON around the panels of deploy/dashboard_panels.py.

    python -m deploy.dashboard        # writes helm/glaim-stream/files/dashboard.json

The chart puts that file into a ConfigMap, and compose mounts it. A test checks that the file is up to date.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from deploy.cache import CHECKOUT
from deploy.dashboard_panels import OF, ROWS, Kind, Panel

TARGET = CHECKOUT / "helm" / "glaim-stream" / "files" / "dashboard.json"
SCHEMA_VERSION = 39  # schema of Grafana 10.4; later versions migrate the dashboard when they load it
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24
_STAT_HEIGHT, _HEIGHT = 4, 8

Json = dict[str, object]


def dashboard() -> Json:
    """The dashboard in Grafana's JSON model."""
    return {
        "uid": "glaim-stream",
        "title": "glaim-stream",
        "description": "Live repair of sensor streams. docs/metrics.md explains every metric.",
        "tags": ["glaim-stream"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,  # one cross-hair over all panels
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "",
        "templating": {"list": list(_variables())},
        "annotations": {"list": [_alerts()]},
        "panels": list(_panels()),
    }


def _variables() -> Iterator[Json]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    # Namespace and release identify an installation; each has one Kafka consumer group.
    yield _choice("namespace", "Namespace", "label_values(glaim_build_info, namespace)")
    yield _choice("release", "Release", 'label_values(glaim_build_info{namespace=~"$namespace"}, release)')
    yield _choice("sensor", "Sensor", f"label_values(glaim_score_questions_total{{{OF}}}, sensor)")


def _choice(name: str, label: str, query: str) -> Json:
    """A variable that selects all values by default; `.*` also matches an absent label, as without Kubernetes."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # when the time range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _alerts() -> Json:
    return {
        "name": "Alerts",
        "datasource": DATASOURCE,
        "enable": True,
        "expr": f'ALERTS{{alertname=~"Glaim.+", alertstate="firing", {OF}}}',
        "titleFormat": "{{alertname}}",
        "iconColor": "red",
        "step": "60s",
    }


def _panels() -> Iterator[Json]:
    number, y = 0, 0
    for title, panels in ROWS.items():
        number += 1
        yield {
            "id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1},
        }  # fmt: skip
        y += 1
        stats = panels[0].kind == "stat"
        width, height = (_WIDTH // len(panels), _STAT_HEIGHT) if stats else (_WIDTH // 2, _HEIGHT)
        x = 0
        for panel in panels:
            number += 1
            yield _panel(panel, number, {"x": x, "y": y, "w": width, "h": height})
            x += width
            if x + width > _WIDTH:
                x, y = 0, y + height
        if x:
            y += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> Json:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": DATASOURCE,
            "expr": expression,
            "legendFormat": legend or "__auto",
            **({"instant": True, "format": "table"} if panel.kind == "table" else {}),
        }
        for index, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": place,
        "targets": targets,
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
    }


_OPTIONS: dict[Kind, Json] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "graphMode": "area"},
    "table": {"showHeader": True},
}


def _field(panel: Panel) -> Json:
    first, beyond = ("red", "green") if panel.low_is_bad else ("green", "red")
    steps: list[Json] = [{"color": first if panel.warn is not None else "green", "value": None}]
    if panel.warn is not None:
        steps.append({"color": beyond, "value": panel.warn})
    field: Json = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.unit == "percentunit":
        field |= {"min": 0, "max": 1}
    if panel.kind == "timeseries":
        field["custom"] = {
            "fillOpacity": 30 if panel.stacked else 0,
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "dashed" if panel.warn is not None else "off"},
        }
    return field


def text() -> str:
    """The content of the file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
    print(f"wrote {TARGET}")
