"""The queries of the dashboard's panels, and what a Prometheus answers to them."""

import json
import re
from typing import Any

from deploy import dashboard
from deploy.prometheus import LocalPrometheus
from tests.monitoring.system import query_prometheus


def panel(title: str) -> list[str]:
    """The queries of a panel, for every installation and sensor."""
    (found,) = [each for each in json.loads(dashboard.TARGET.read_text())["panels"] if each["title"] == title]
    shown = [re.sub(r"\$(namespace|release|sensor)\b", ".*", target["expr"]) for target in found["targets"]]
    return [each.replace("$__rate_interval", "60s") for each in shown]


def values(prometheus: LocalPrometheus, title: str) -> list[tuple[dict[str, str], float]]:
    """Labels and value of every series of a panel."""
    found: list[dict[str, Any]] = [each for query in panel(title) for each in query_prometheus(prometheus, query)]
    return [(each["metric"], float(each["value"][1])) for each in found]
