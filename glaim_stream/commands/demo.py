"""`glaim-stream demo`: a file with holes, filled, beside the truth that was hidden. It needs no other program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from glaim_stream.feed.plant import Plant

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
    from glaim_stream.feed.dropouts import hide
    from glaim_stream.feed.plant import simulate
    from glaim_stream.feed.sources import plant_source

    plant = simulate(DAYS, groups=1, seed=SEED)
    source = plant_source(DAYS, groups=1, seed=SEED)
    gone = hide(source, SHARE, seed=SEED).mask
    hidden = np.zeros(plant.values[0].shape, np.bool_)
    row = np.searchsorted(plant.times_ms, source.time_ms[gone])
    hidden[source.cell[gone], row] = True

    out.mkdir(parents=True, exist_ok=True)
    file, filled, report = out / "pumps.csv", out / "pumps-filled.csv", out / "pumps.html"
    file.write_text(_csv(plant, hidden))
    print(f"wrote {file}: {plant.values.shape[2]:,} rows of {plant.values.shape[1]} sensors, with holes")
    print(f"glaim-stream fill {file} --out {filled} --report {report}")
    fill_file(str(file), ReadFlags(), WriteFlags(out=str(filled), report=report))
    print("\n".join(_compared(plant, hidden, filled)))


def _csv(plant: Plant, hidden: NDArray[np.bool_]) -> str:
    from glaim_stream.times import text_of_ms

    lines = [",".join(("time", *plant.sensor_ids))]
    for step, time_ms in enumerate(plant.times_ms.tolist()):
        values = zip(plant.values[0, :, step].tolist(), hidden[:, step].tolist(), strict=True)
        lines.append(",".join((text_of_ms(time_ms), *("" if gone else f"{value:.3f}" for value, gone in values))))
    return "\n".join(lines) + "\n"


def _compared(plant: Plant, hidden: NDArray[np.bool_], filled: Path) -> list[str]:
    """State the error of the filled cells, and that of a straight line through each hole."""
    import numpy as np

    found = np.genfromtxt(filled, delimiter=",", skip_header=1, usecols=range(1, 1 + len(plant.sensors))).T
    steps = np.arange(found.shape[1])
    lines = ["mean absolute error of the filled cells, and of a straight line through each hole:"]
    for index, sensor in enumerate(plant.sensors):
        truth, gone = plant.values[0, index].astype(np.float64), hidden[index] & np.isfinite(found[index])
        line = np.interp(steps[gone], steps[~hidden[index]], truth[~hidden[index]])
        errors = [float(np.abs(values - truth[gone]).mean()) for values in (found[index, gone], line)]
        lines.append(f"  {sensor.id:<20} {errors[0]:9.3g}  {errors[1]:9.3g} {sensor.unit}")
    return lines
