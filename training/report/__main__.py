"""Write the report of a trained run: report.html, one self-contained page, and report.json.

    python -m training.report build/runs/plant-pump
    python -m training.report build/runs/plant-pump --contract model_repo/plant-pump

The page shows the data, the model, the learning curves, the errors beside linear interpolation, last value and
training mean - per sensor, per gap length, in the interior and at the right edge, standardised and in sensor units -
example windows chosen by a stated rule, the dependency map, and the coverage of the intervals on the test part.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from training.errors import exits_with_errors
from training.report.write import write_page
from training.runtime import keep_memory


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after an error message."""
    parser = argparse.ArgumentParser(
        prog="python -m training.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="a run's directory: best.pt, and last.pt for the whole history")
    parser.add_argument("--data", type=Path, help="the data file, if it has moved since the training")
    parser.add_argument(
        "--contract", type=Path, help="the exported model whose intervals are checked (default: measure intervals here)"
    )
    parser.add_argument(
        "--windows", type=int, default=300, help="most test windows of a case; fewer is faster (default 300)"
    )
    parser.add_argument("--threads", type=int, default=1, help="of torch (default 1)")
    given = parser.parse_args(arguments)
    keep_memory()
    torch.set_num_threads(given.threads)
    if given.windows < 10:
        print(f"error: expected --windows of 10 or more, found {given.windows}", file=sys.stderr)
        return 2
    written = write_page(given.run, data=given.data, contract=given.contract, windows=given.windows)
    print(f"wrote {written} and {written.with_suffix('.json').name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
