"""`glaim-stream demo`: a stranger without a file sees one filled, and how far the values are from the truth."""

import csv
from pathlib import Path

import pytest

from tests.command_line import call


def cells(file: Path) -> list[list[str]]:
    with file.open(newline="") as lines:
        return list(csv.reader(lines))[1:]


@pytest.mark.slow  # quicker: test_fill.py; the demo fills the readings of a simulated day twice
def test_a_simulated_file_is_filled_and_compared_with_what_was_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("demo", "--out", "tried", environment={})
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in Path("tried").iterdir()) == ["pumps-filled.csv", "pumps.csv", "pumps.html"]

    given, filled = cells(Path("tried/pumps.csv")), cells(Path("tried/pumps-filled.csv"))
    holes = [(row, place) for row, line in enumerate(given) for place, cell in enumerate(line) if not cell]
    assert 0.08 < len(holes) / sum(map(len, given)) < 0.1
    assert all(filled[row][place] for row, place in holes)
    changed = [
        (row, place) for row, line in enumerate(given) for place, cell in enumerate(line) if filled[row][place] != cell
    ]
    assert changed == holes

    table = [line.split() for line in done.stdout.splitlines() if line.startswith("  ")]
    errors = {name: (float(form), float(line)) for name, form, line, _ in table}
    assert len(errors) == 8
    assert all(form <= 1.02 * line for form, line in errors.values()), "chosen on other cells than these"
    assert errors["flow"][0] < 0.8 * errors["flow"][1]
    # The error that the fill announced, from readings that it hid itself, is about the true one.
    announced = float(done.stdout.partition("flow ")[2].split()[0])
    assert errors["flow"][0] == pytest.approx(announced, rel=0.2)

    again = call("demo", "--out", "tried", environment={})
    assert again.returncode == 0, "its own files are replaced"
