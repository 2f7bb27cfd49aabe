"""Writes the chart's documents whose descriptions of values are the comments in values.yaml.

    python -m deploy.chart_docs            writes README.md, values.schema.json and files/gone.yaml in helm/glaim-stream
    python -m deploy.chart_docs --check    exits with 1 if one of them is not up to date

helm-docs generates the tables of the README; the rest of the page is in README.md.gotmpl. In the schema only the
descriptions are generated.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from deploy import chart_schema, gotools
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
        raise ChartDocsError(f"helm-docs rejects {chart}: {run.stderr.strip()[-2000:]}")
    return run.stdout.strip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the README and the schema, or check that they are up to date."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.chart_docs", description="Write the chart's README and schema."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    parser.add_argument("--fetch-only", action="store_true", help="build helm-docs and exit")
    given = parser.parse_args(arguments)
    if given.fetch_only:
        return fetch(lambda: f"helm-docs: {helm_docs()}", named="helm-docs", unavailable=gotools.GoUnavailable)
    try:
        wanted = {
            "values.schema.json": chart_schema.schema(CHART),
            "files/gone.yaml": chart_schema.gone(),
            "README.md": readme(CHART),
        }
    except gotools.GoUnavailable as error:
        print(f"helm-docs cannot run here: {error}")
        return CANNOT_RUN_HERE
    except DeployError as error:
        print(f"error: {error}")
        return 1
    outdated = [name for name, content in wanted.items() if (CHART / name).read_text() != content]
    if given.check:
        for name in wanted:
            print(f"{CHART / name}: {'out of date; run `make chart-docs`' if name in outdated else 'up to date'}")
        return 1 if outdated else 0
    for name in outdated:
        (CHART / name).write_text(wanted[name])
        print(CHART / name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
