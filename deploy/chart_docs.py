"""Writes the chart's README: helm-docs generates the table of values from values.yaml.

    python -m deploy.chart_docs            writes helm/glaim-stream/README.md
    python -m deploy.chart_docs --check    exits with 1 if the file is not up to date

The rest of the page is in README.md.gotmpl.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from deploy import gotools
from deploy.cache import CHECKOUT
from deploy.errors import DeployError
from deploy.fetch import CANNOT_RUN_HERE, fetch

VERSION = "v1.14.2"
PACKAGE = "github.com/norwoodj/helm-docs/cmd/helm-docs"
CHART = CHECKOUT / "helm" / "glaim-stream"
_TIMEOUT_S = 60


class ChartDocsError(DeployError):
    """helm-docs rejected the chart: it could not read values.yaml or the template."""


def helm_docs() -> Path:
    """The helm-docs built earlier or now (20 seconds). One on PATH could be of a version with another table layout.

    Raises:
        GoUnavailable: There is no go to build it.
        FetchError: The build failed.
    """
    return gotools.build(PACKAGE, VERSION, "helm-docs")


def readme(chart: Path) -> str:
    """The up-to-date content of a chart's README.

    Raises:
        ChartDocsError: helm-docs rejected the chart; the message ends with its output.
    """
    command = [str(helm_docs()), "--dry-run", "--sort-values-order", "file", "--log-level", "warning"]
    # helm-docs processes the charts below its working directory, and exits with 0 even if it skips one.
    run = subprocess.run(command, cwd=chart, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if run.returncode != 0 or not run.stdout.strip():
        raise ChartDocsError(f"helm-docs refuses {chart}: {run.stderr.strip()[-2000:]}")
    return run.stdout.strip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the README, or check that it is up to date."""
    parser = argparse.ArgumentParser(prog="python -m deploy.chart_docs", description="Write the chart's README.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    parser.add_argument("--fetch-only", action="store_true", help="build helm-docs and exit")
    given = parser.parse_args(arguments)
    if given.fetch_only:
        return fetch(lambda: f"helm-docs: {helm_docs()}", named="helm-docs", unavailable=gotools.GoUnavailable)
    page = CHART / "README.md"
    try:
        wanted = readme(CHART)
    except gotools.GoUnavailable as error:
        print(f"helm-docs cannot run here: {error}")
        return CANNOT_RUN_HERE
    except DeployError as error:
        print(f"error: {error}")
        return 1
    if given.check:
        current = page.read_text() == wanted
        print(f"{page}: {'up to date' if current else 'out of date; run `make chart-docs`'}")
        return 0 if current else 1
    page.write_text(wanted)
    print(page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
