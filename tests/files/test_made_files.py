"""Files in the forms of programs and archives, with readings of our own, are read right without a flag."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import text_of_ms
from glaim_stream.feed import read_source
from glaim_stream.files.read import read
from tests.command_line import call

FOLDER = Path(__file__).parent / "made_files"


def test_the_form_of_uci_air_quality_is_read_without_a_flag() -> None:
    reading = read(FOLDER / "uci_air_quality_form.csv")
    form = reading.form
    assert (form.time, text_of_ms(form.first_ms), text_of_ms(form.last_ms)) == (
        "Date+Time", "2004-03-10T18:00:00Z", "2004-03-19T01:00:00Z",
    )  # fmt: skip
    assert (form.step_ms, reading.rows, form.untimed, len(form.sensors)) == (3_600_000, 220, 20, 13)
    missing = np.isnan(reading.values[:, reading.timed]).sum(axis=1)
    # 80 of NMHC at the end; 8 of CO, of which 2 hours are no value in all columns
    assert dict(zip(form.sensors, missing.tolist(), strict=True))["NMHC(GT)"] == 80
    assert not (reading.values == -200).any()
    assert {each.value for each in form.sentinels} == {-200.0}
    assert all(each.taken for each in form.sentinels)
    assert float(np.nanmax(reading.values[0])) < 10  # decimal commas


def test_a_number_for_no_value_is_taken_where_it_stands_alone_in_a_column_of_few_levels() -> None:
    """-200 eight times is no more than each level of CO, which has one decimal; elsewhere in the file it is known."""
    found = [each for each in read(FOLDER / "uci_air_quality_form.csv").form.sentinels if each.column == "CO(GT)"]
    assert [(each.value, each.count, each.taken) for each in found] == [(-200.0, 8, True)]


def test_a_filled_file_in_the_form_of_uci_air_quality_differs_in_its_holes_alone(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = call("fill", str(FOLDER / "uci_air_quality_form.csv"), "--out", str(out), environment={})
    assert done.returncode == 0, done.stderr
    before = (FOLDER / "uci_air_quality_form.csv").read_bytes().split(b"\r\n")
    after = out.read_bytes().split(b"\r\n")
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        cells = list(zip(old.split(b";"), new.split(b";"), strict=True))
        assert all(a == b or a.startswith(b"-200") for a, b in cells)
        assert all(b"." not in b for a, b in cells if a != b)  # the sign of the column
    assert after[-21:] == before[-21:]


def test_a_well_log_is_read_by_its_sections() -> None:
    reading = read(FOLDER / "well_log.las")
    form = reading.form
    assert (form.kind, form.time, form.sensors, reading.rows) == ("las", "DEPT", ("DT", "RHOB", "NPHI"), 100)
    assert (form.moment(form.first_ms), form.length(form.step_ms)) == ("654.9124 M", "0.1524 M")
    assert np.isnan(reading.values).sum(axis=1).tolist() == [3, 1, 5]
    assert len(np.unique(np.diff(np.sort(reading.times_ms)))) == 1
    assert form.units == {"DEPT": "M", "DT": "US/M", "RHOB": "K/M3", "NPHI": "V/V"}


def test_a_filled_well_log_differs_in_its_holes_alone(tmp_path: Path) -> None:
    out, flags = tmp_path / "out.las", tmp_path / "flags.csv"
    done = call(
        "fill", str(FOLDER / "well_log.las"), "--out", str(out), "--flags-out", str(flags), "--max-gap", "9",
        environment={},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "from 654.9124 M to 670 M, a step every 0.1524 M" in done.stdout
    before, after = ((path.read_text().splitlines()) for path in (FOLDER / "well_log.las", out))
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == 9
    assert all("-999.25" in old and "-999.25" not in new for old, new in changed)
    assert flags.read_text().splitlines()[1].startswith("21,666.952 M,well_log,DT,")


@pytest.mark.parametrize("flag", ["--flags", "--insert-rows"])
def test_what_the_sections_of_a_well_log_do_not_state_is_not_added(tmp_path: Path, flag: str) -> None:
    done = call("fill", str(FOLDER / "well_log.las"), "--out", str(tmp_path / "out.las"), flag, environment={})
    assert done.returncode == 2
    assert "--flags-out" in done.stderr
    assert not (tmp_path / "out.las").exists()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("WRAP.                          NO ", "WRAP.                          YES", "found wrapped lines"),
        ("VERS.                          2.0", "VERS.                          3.0", "found 3.0"),
        ("DT      .US/M    60 520 32 00           : 2  Sonic transit time\n", "", "expected 3 cells in every line"),
        ("-999.25                 :", "none                    :", "expected a number as NULL"),
    ],
)
def test_another_well_log_is_one_sentence(tmp_path: Path, before: str, after: str, message: str) -> None:
    text = (FOLDER / "well_log.las").read_text()
    assert before in text
    (tmp_path / "other.las").write_text(text.replace(before, after))
    with pytest.raises(SettingsError, match=message):
        read(tmp_path / "other.las")


def test_a_well_log_is_no_stream() -> None:
    with pytest.raises(SettingsError, match="it has depths or elapsed times and no dates"):
        read_source(FOLDER / "well_log.las")


def test_a_lone_quote_in_a_cell_is_a_sign_like_others(tmp_path: Path) -> None:
    reading = read(FOLDER / "inches.csv")
    assert (reading.rows, reading.form.sensors) == (80, ("flow",))
    assert reading.table.column("pipe")[0].as_py() == '5" main'
    assert reading.table.column("remark")[5].as_py() == 'valve, "2" open'
    done = call("fill", str(FOLDER / "inches.csv"), "--out", str(tmp_path / "out.csv"), environment={})
    assert done.returncode == 0, done.stderr
    before, after = ((path.read_bytes().split(b"\n")) for path in (FOLDER / "inches.csv", tmp_path / "out.csv"))
    assert [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new] == [21, 22]


def test_parts_of_a_date_below_two_lines_about_the_place_are_the_time() -> None:
    form = read(FOLDER / "psm3_form.csv").form
    assert form.time == "Year+Month+Day+Hour+Minute"
    assert (text_of_ms(form.first_ms), form.step_ms) == ("2019-06-01T00:30:00Z", 3_600_000)
    assert form.sensors == ("DHI", "DNI", "GHI", "Dew Point", "Temperature", "Pressure", "Wind Speed")


def test_tabs_and_three_decimals_are_read_where_a_cell_shows_the_decimal_sign() -> None:
    """1013.250 has no signs between thousands, so 3.107 is no 3107."""
    reading = read(FOLDER / "three_decimals.tsv")
    assert float(reading.values[0].max()) < 5


def test_three_digits_behind_every_point_ask_where_nothing_shows_the_decimal_sign(tmp_path: Path) -> None:
    lines = (FOLDER / "three_decimals.tsv").read_text().splitlines()
    (tmp_path / "cut.tsv").write_text("\n".join(line.rsplit("\t", 1)[0] for line in lines))
    with pytest.raises(SettingsError, match=r"state the decimal sign"):
        read(tmp_path / "cut.tsv")


def test_a_number_with_an_exponent_has_no_signs_between_thousands(tmp_path: Path) -> None:
    rows = [f"2026-01-01 00:{row:02d}\t{1 + row / 100:.3f}e-05" for row in range(60)]
    (tmp_path / "e.tsv").write_text("\n".join(["time\ta", *rows]))
    assert float(read(tmp_path / "e.tsv").values[0][0]) == 1e-05


def test_an_empty_column_without_a_name_does_not_move_the_filled_cells(tmp_path: Path) -> None:
    rows = [f"2026-01-01 00:{row:02d};;{'' if row == 30 else row / 2};{row}" for row in range(60)]
    (tmp_path / "in.csv").write_text("\n".join(["time;;a;b", *rows]))
    done = call("fill", str(tmp_path / "in.csv"), "--out", str(tmp_path / "out.csv"), environment={})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").read_text().splitlines()[31] == "2026-01-01 00:30;;15.0;30"


def test_a_table_in_json_lines_is_learned_and_replayed(tmp_path: Path) -> None:
    file, catalogue = FOLDER / "pumps.jsonl", tmp_path / "groups.yaml"
    catalogue.write_text(
        "models:\n  - {name: pump, step_s: 60, lateness_s: 0, revise_after: 2, max_gap: 8, window: 24, sensors: "
        "[{id: flow}, {id: pressure}]}\ngroups:\n  - {model: pump, pattern: 'pump*'}\n"
    )
    repository = ["--catalogue", str(catalogue), "--model-repository", str(tmp_path)]
    done = call("learn", "--data", str(file), *repository, environment={})
    assert done.returncode == 0, done.stderr
    assert "798 readings of 1 groups, 400 rows" in done.stdout
    out = tmp_path / "rows.parquet"
    done = call("replay", str(file), "--imputer", "gaussian", "--out", str(out), *repository, environment={})
    assert done.returncode == 0, done.stderr
    rows = [row for row in pq.read_table(out).to_pylist() if row["sensor"] == "flow"]
    assert len(rows) == 400
    assert [row["method"] for row in rows if not row["observed"]] == ["gaussian"] * 2
