"""`glaim-stream demo`: a file with holes, filled, beside the truth that was hidden. It needs no other program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DAYS = 7.0
SHARE = 0.1  # of the readings that are hidden
SEED = 7


def demo(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the files; it is made if it is absent.")] = Path("glaim-demo"),
) -> None:
    """Simulate a week of a pump, hide a tenth of its readings, fill the file, and compare with what was hidden.

    Writes pumps.csv, pumps-filled.csv and pumps.html. The live demo, with Kafka and Triton, is `make demo` in a
    checkout.
    """
    import numpy as np

    from glaim_stream.commands.fill import ReadFlags, WriteFlags, fill_file
    from glaim_stream.feed import hide, plant_source

    source = plant_source(DAYS, groups=1, seed=SEED)
    truth = np.empty((len(source.cells), len(source) // len(source.cells)), source.value.dtype)
    times_ms, step = np.unique(source.time_ms, return_inverse=True)
    truth[source.cell, step] = source.value
    hidden = np.zeros(truth.shape, np.bool_)
    gone = hide(source, SHARE, seed=SEED).mask
    hidden[source.cell[gone], step[gone]] = True

    out.mkdir(parents=True, exist_ok=True)
    file, filled, report = out / "pumps.csv", out / "pumps-filled.csv", out / "pumps.html"
    file.write_text(_csv(times_ms, truth, hidden))
    print(f"wrote {file}: {len(times_ms):,} rows of {len(truth)} sensors, with holes")
    print(f"glaim-stream fill {file} --out {filled} --report {report}")
    fill_file(str(file), ReadFlags(), WriteFlags(out=str(filled), report=report))
    print("\n".join(_compared(truth, hidden, filled)))


def _csv(times_ms: NDArray[np.int64], truth: NDArray[np.floating], hidden: NDArray[np.bool_]) -> str:
    """The file: a row for each time, a column for each row of `truth` [C, T], holes where `hidden` [C, T]."""
    from glaim_stream.core.times import text_of_ms
    from glaim_stream.feed.plant import SENSORS

    lines = [",".join(("time", *(sensor.id for sensor in SENSORS)))]
    for time_ms, values, gone in zip(times_ms.tolist(), truth.T.tolist(), hidden.T.tolist(), strict=True):
        cells = ("" if out else f"{value:.3f}" for value, out in zip(values, gone, strict=True))
        lines.append(",".join((text_of_ms(time_ms), *cells)))
    return "\n".join(lines) + "\n"


def _compared(truth: NDArray[np.floating], hidden: NDArray[np.bool_], filled: Path) -> list[str]:
    """State the error of the filled cells, and that of a straight line through each hole."""
    import numpy as np

    from glaim_stream.feed.plant import SENSORS

    found = np.genfromtxt(filled, delimiter=",", skip_header=1, usecols=range(1, 1 + len(SENSORS))).T
    steps = np.arange(found.shape[1])
    lines = ["mean absolute error of the filled cells, and of a straight line through each hole:"]
    for sensor, values, true, mask in zip(SENSORS, found, truth.astype(np.float64), hidden, strict=True):
        gone = mask & np.isfinite(values)
        line = np.interp(steps[gone], steps[~mask], true[~mask])
        errors = [float(np.abs(each - true[gone]).mean()) for each in (values[gone], line)]
        lines.append(f"  {sensor.id:<20} {errors[0]:9.3g}  {errors[1]:9.3g} {sensor.unit}")
    return lines
