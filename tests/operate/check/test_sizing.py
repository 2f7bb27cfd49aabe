"""The sizing arithmetic: its constants are measured, and its results follow from them."""

import json
import re
import shlex
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from deploy.cache import CHECKOUT
from glaim_stream.commands.main import app
from glaim_stream.operate.check import sizing
from glaim_stream.operate.check.sizing import Load, size

RESULTS = CHECKOUT / "benchmarks" / "results"
PUMPS = Load(groups=2000, sensors=8, step_s=60)


def measured(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


def test_without_a_network_nothing_goes_to_triton_and_the_closed_form_has_its_cores() -> None:
    """5,000 groups of 12 sensors every 10 s: 5,700 readings/s of 48,082 that a core takes with the closed form."""
    alone = size(Load(groups=5000, sensors=12, step_s=10, network=False))
    assert (alone.gpus, alone.windows_s, alone.triton_bytes_s) == (0, 0, 0)
    assert alone.cores == pytest.approx(5_700 / sizing.CLOSED_FORM_READINGS_A_CORE_S)
    assert alone.worker_cores == 0.3
    assert size(PUMPS).worker_cores == sizing.LEAST_REQUEST_CORES
    assert size(replace(PUMPS, network=False)).gpus == 0
    assert size(PUMPS).gpus is None


def test_the_constants_are_measured_results() -> None:
    closed_form = [each for each in measured("stream") if each["date"] == "2026-11-26T16:53:20Z"]
    assert [each["whole_closed_form_per_cpu_s"] for each in closed_form] == [sizing.CLOSED_FORM_READINGS_A_CORE_S]
    rates = dict(sizing.READINGS_A_CORE_S)
    complete = [
        each for each in measured("stream") if each["command"] == "python -m benchmarks.stream --rounds 2 --seconds 6"
    ]
    assert {shape: complete[-1][f"{shape}_per_s"] for shape in rates} == rates
    assert any(line.get("mb_per_1000_groups") == 18.01 for line in measured("stream"))
    assert pytest.approx(18.01e6 / 11_000) == sizing.WINDOW_BYTES_PER_SENSOR
    wire = measured("wire")[-1]
    assert isinstance(wire["bytes_a_reading"], dict)
    assert isinstance(wire["output"], list)
    assert {shape: wire["bytes_a_reading"][shape] for shape in sizing.BYTES_A_READING} == sizing.BYTES_A_READING
    assert tuple((line["rows_a_message"], line["bytes_a_row"]) for line in wire["output"]) == sizing.BYTES_A_ROW
    with_network = [each for each in measured("scores") if "gaussian" not in str(each["command"])]
    shares = with_network[-1]["shares"]
    assert isinstance(shares, list)
    core_s_per_window = (shares[-1]["cpu_s"] - shares[0]["cpu_s"]) / shares[-1]["side_windows"]
    assert pytest.approx(core_s_per_window) == sizing.WINDOW_CORE_S


def test_a_plain_load_computed_by_hand() -> None:
    need = size(PUMPS)
    cells = 2000 * 8 / 60
    assert need.readings_s == pytest.approx(cells * 0.95)
    assert need.rows_s == pytest.approx(cells * 1.05)
    assert (need.workers, need.partitions) == (2, 8)
    # A window with a hole in any of 8 sensors is imputed twice; 250 groups per partition make 12.5 probes and 8 copies
    assert need.windows_s == pytest.approx(2000 / 60 * 2 * (1 - 0.95**8) + 20.5 * 8 / 60)
    assert need.retention_h == pytest.approx(192 / 60 + 24)
    assert need.gpus is None


def test_without_missing_readings_there_are_only_probe_windows() -> None:
    need = size(replace(PUMPS, missing=0.0))
    assert need.windows_s == pytest.approx(20.5 * 8 / 60)
    assert need.rows_s == need.readings_s


@pytest.mark.parametrize("change", [{"groups": 400_000}, {"sensors": 800}, {"step_s": 1.0, "sensors": 80}])
def test_a_larger_load_needs_more(change: dict[str, float]) -> None:
    less, more = size(PUMPS), size(replace(PUMPS, windows_a_gpu_s=1000.0, **change))  # type: ignore[arg-type]
    for name in ("readings_s", "windows_s", "cores", "worker_bytes", "in_bytes_s", "triton_bytes_s"):
        assert getattr(more, name) > getattr(less, name), name
    assert more.workers >= less.workers


@pytest.mark.parametrize("groups", [10, 10_000, 300_000, 5_000_000])
def test_the_proposed_size_meets_its_limits(groups: int) -> None:
    """With one worker down, the others have enough memory and time, and half of their cores is free."""
    load = replace(PUMPS, groups=groups, step_s=10.0, windows_a_gpu_s=500.0)
    need = size(load)
    assert need.worker_bytes <= sizing.WORKER_MOST_BYTES
    assert need.rebuild_s <= load.rebuild_s
    assert need.workers >= 2
    assert need.cores <= 0.55 * need.workers  # probe windows add to the half
    assert need.gpus is not None
    assert need.gpus >= 2
    assert need.windows_s <= need.gpus * 500 / 2


def test_bytes_per_row_match_the_measurements_and_stay_constant_beyond_them() -> None:
    for rows, each in sizing.BYTES_A_ROW:
        assert sizing.bytes_a_row(rows) == pytest.approx(each)
    assert sizing.bytes_a_row(1) == pytest.approx(sizing.BYTES_A_ROW[0][1])
    assert sizing.bytes_a_row(1e9) == pytest.approx(sizing.BYTES_A_ROW[-1][1])
    assert sizing.bytes_a_row(300) < sizing.bytes_a_row(200)


def examples() -> list[tuple[str, str]]:
    """Each `glaim-stream size` command of the operations guide with the output below it."""
    text = (CHECKOUT / "docs" / "operations.md").read_text()
    return re.findall(r"^\$ glaim-stream (size .*)\n((?:.+\n)+?)```", text, re.MULTILINE)


@pytest.mark.parametrize(("command", "shown"), examples(), ids=[command for command, _ in examples()])
def test_the_guide_shows_what_the_command_prints(command: str, shown: str) -> None:
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.exit_code == 0
    assert [line.split() for line in done.output.splitlines()] == [line.split() for line in shown.splitlines()]


def test_the_guide_has_examples() -> None:
    assert len(examples()) >= 2


def test_a_large_load_computed_by_hand() -> None:
    """40,000 groups of 10 sensors every 10 s, a quarter missing: 40,000 cells and 30,000 readings per second."""
    load = Load(
        groups=40_000, sensors=10, step_s=10, missing=0.25, shape="batch", lateness_s=360, growth=3, rebuild_s=20,
        outage_h=7, replication=2, windows_a_gpu_s=900,
    )  # fmt: skip
    need = size(load)
    rate = sizing.READINGS_A_CORE_S["batch"]
    assert (need.readings_s, need.rows_s) == (30_000, 50_000)
    holes = 2 * 4000 * (1 - 0.75**10)  # windows per second
    rebuild_s = 400_000 * 0.75 * 192 / rate  # 111 s for one worker: shared by six, and one more may be down
    assert (need.workers, need.partitions) == (1 + 6, 21)
    assert need.rebuild_s == pytest.approx(rebuild_s / 6)
    assert need.windows_s == pytest.approx(holes + 40 * 21 / 10)  # 5 % of 1,905 groups are more than 32 probes
    assert need.cores == pytest.approx(30_000 / rate + need.windows_s * sizing.WINDOW_CORE_S)
    assert need.gpus == -(-2 * need.windows_s // 900)
    assert need.worker_bytes == pytest.approx(316e6 + 400_000 / 6 * sizing.WINDOW_BYTES_PER_SENSOR)
    assert need.retention_h == pytest.approx((192 * 10 + 360) / 3600 + 7)
    assert need.in_bytes_s == pytest.approx(30_000 * 64.9)
    assert need.input_bytes == pytest.approx(need.in_bytes_s * need.retention_h * 3600 * 2)
    assert need.out_bytes_s == pytest.approx(50_000 * sizing.bytes_a_row(400_000 / 21))
    assert need.triton_bytes_s == pytest.approx(need.windows_s * 10 * (96 * 5 + 9 * 4))


def test_redundancy_memory_or_cores_can_decide_the_number_of_workers() -> None:
    assert size(replace(PUMPS, groups=1)).workers == 2
    memory = replace(PUMPS, groups=1_000_000, step_s=3600.0, rebuild_s=1e6)
    free = sizing.WORKER_MOST_BYTES - sizing.WORKER_BASE_BYTES
    assert size(memory).workers == 1 + -(-8_000_000 * sizing.WINDOW_BYTES_PER_SENSOR // free)
    cores = replace(PUMPS, groups=100_000, step_s=1.0, missing=0.0, rebuild_s=1e6)
    assert size(cores).workers == -(-2 * 800_000 // sizing.READINGS_A_CORE_S["single"])


@pytest.mark.parametrize(
    ("groups", "probes"), [(8, 8.0), (8 * 80, 8.0), (8 * 100, 10.0), (8 * 640, 40.0), (8 * 700, 40.0)]
)
def test_probes_are_a_twentieth_of_a_partitions_groups_within_bounds_and_up_to_eight_copies(
    groups: int, probes: float
) -> None:
    need = size(replace(PUMPS, groups=groups, missing=0.0))
    assert need.partitions == 8
    assert need.windows_s == pytest.approx(probes * 8 / 60)


def test_gpus_have_twice_the_needed_rate_and_number_at_least_two() -> None:
    windows_s = size(PUMPS).windows_s
    assert size(replace(PUMPS, windows_a_gpu_s=windows_s * 2)).gpus == 2
    assert size(replace(PUMPS, windows_a_gpu_s=windows_s)).gpus == 2
    assert size(replace(PUMPS, windows_a_gpu_s=windows_s * 0.99)).gpus == 3


def test_bytes_between_two_measurements_are_interpolated_logarithmically() -> None:
    (low, small), (high, large) = sizing.BYTES_A_ROW[1:3]
    assert sizing.bytes_a_row((low * high) ** 0.5) == pytest.approx((small * large) ** 0.5)
    assert sizing.bytes_a_row(0) == sizing.bytes_a_row(low / 100)
