"""The chart's README: its table of values is made from values.yaml by helm-docs.

    python -m deploy.chart_docs            writes helm/glaim-stream/README.md
    python -m deploy.chart_docs --check    ends with 1 if it is not what would be written

The rest of the page stands in README.md.gotmpl.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from deploy import gotools
from deploy.bring import CANNOT_RUN_HERE
from deploy.cache import CHECKOUT
from deploy.errors import DeployError

VERSION = "v1.14.2"
PACKAGE = "github.com/norwoodj/helm-docs/cmd/helm-docs"
CHART = CHECKOUT / "helm" / "glaim-stream"
_TIMEOUT_S = 60


class ChartDocsError(DeployError):
    """helm-docs refuses the chart: values.yaml or the template cannot be read."""


def helm_docs() -> Path:
    """The helm-docs built earlier, else one built now (20 seconds). One on PATH might write another table.

    Raises:
        GoUnavailable: There is no go to build it with.
        FetchError: The build failed.
    """
    return gotools.build(PACKAGE, VERSION, "helm-docs")


def readme(chart: Path) -> str:
    """What a chart's README has to say.

    Raises:
        ChartDocsError: helm-docs refuses the chart; with what it said.
    """
    command = [str(helm_docs()), "--dry-run", "--sort-values-order", "file", "--log-level", "warning"]
    # It takes the charts below its working directory, and ends with 0 also where it skips one.
    run = subprocess.run(command, cwd=chart, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if run.returncode != 0 or not run.stdout.strip():
        raise ChartDocsError(f"helm-docs refuses {chart}: {run.stderr.strip()[-2000:]}")
    return run.stdout.strip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the README, or say whether it is current."""
    parser = argparse.ArgumentParser(prog="python -m deploy.chart_docs", description="Make the chart's README.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if the page is not current")
    parser.add_argument("--fetch-only", action="store_true", help="only bring helm-docs; as of the other runners")
    given = parser.parse_args(arguments)
    page = CHART / "README.md"
    try:
        if given.fetch_only:
            print(f"helm-docs: {helm_docs()}")
            return 0
        wanted = readme(CHART)
    except gotools.GoUnavailable as error:
        print(f"helm-docs cannot be had here: {error}")
        return CANNOT_RUN_HERE
    except DeployError as error:
        print(f"error: {error}")
        return 1
    if given.check:
        current = page.read_text() == wanted
        print(f"{page}: {'current' if current else 'not current; run `make chart-docs`'}")
        return 0 if current else 1
    page.write_text(wanted)
    print(page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
