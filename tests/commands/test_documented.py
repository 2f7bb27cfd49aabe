"""What the command line promises is documented: exit codes, settings, flags, and the places that stay clean."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from glaim_stream.commands.exit_codes import EXIT_CODES
from glaim_stream.core.settings import Settings
from glaim_stream.core.vocabulary import Method
from glaim_stream.output import SCHEMA
from tests.command_line import call

ROOT = Path(__file__).parents[2]


def glaim(*arguments: str) -> str:
    done = call(*arguments, environment={"COLUMNS": "120"})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_that_of_the_package(flag: str) -> None:
    assert glaim(flag) == f"glaim-stream {version('glaim-stream')}\n"


def test_exit_codes_are_documented_in_help_and_page() -> None:
    page, text = (ROOT / "docs" / "commands.md").read_text(), " ".join(glaim("--help").split())
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in page
        assert f"{code} {meaning}" in text


def test_the_page_of_settings_lists_every_setting() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page.endswith(glaim("settings", "--format", "markdown"))
    listed = re.findall(r"^\| `GLAIM_(\w+)` \|", page, re.MULTILINE)
    assert listed == [name.upper() for name in Settings.model_fields]
    assert all(field.description for field in Settings.model_fields.values())
    assert "glaim-stream settings" in " ".join(glaim("worker", "--help").split())


def test_settings_are_found_by_a_part_of_their_name() -> None:
    shown = glaim("settings", "delivery")
    assert shown.startswith("GLAIM_DELIVERY   [at_least_once, exactly_once; default: exactly_once]\n    exactly_once: ")
    assert re.findall(r"^GLAIM_\w+", glaim("settings", "record_mb"), re.MULTILINE) == ["GLAIM_RECORD_MB"]


def test_every_flag_that_the_page_names_exists() -> None:
    rows = re.findall(r"^\| (`--.*?) \|.*\| ([\w, ]*) \|$", (ROOT / "docs" / "commands.md").read_text(), re.MULTILINE)
    assert len(rows) > 5
    for flags, names in rows:
        for name in filter(None, names.split(", ")):
            words = [name, "list"] if name == "dlq" else [name]
            text = fit_help() if name == "fit" else glaim(*words, "--help")
            for flag in re.findall(r"--[\w-]+", flags):
                assert flag in text, (name, flag)


def fit_help() -> str:
    from training.fit.options import parser

    return parser(None).format_help()


def test_the_schema_is_json_on_request() -> None:
    found = json.loads(glaim("schema", "--json"))
    assert [column["name"] for column in found["columns"]] == SCHEMA.names
    assert all(column["meaning"] for column in found["columns"])
    assert len(found["methods"]) == len(Method)
    assert {"name": "Good", "code": 0, "meaning": "observed"} in found["statuses"]


def test_fit_is_the_training_command(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "glaim_stream",
        "fit",
        "--data",
        str(tmp_path / "absent.csv"),
        "--model",
        "gaussian",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: expected a data file at ")


def test_fit_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glaim_stream.commands.fit.find_spec", lambda name: None if name == "torch" else object())
    done = call("fit", "--data", "x.csv", environment={})
    assert done.returncode == 2
    assert "pip install 'glaim-stream[training]'" in done.stderr
    assert "found no torch" in done.stderr


@pytest.mark.parametrize(
    "left",
    [
        "model_repo/pumps/1/model.pt",
        "model_repo/pumps/gaussian.npz",
        "build/runs/pumps/report.html",
        "build/results/stream.jsonl",
        "demo-output/report.html",
        "filled.csv",
        "filled.parquet",
        "pumps.csv",
        "groups.yaml",
    ],
)
def test_what_the_commands_of_readme_leave_is_ignored(left: str) -> None:
    assert subprocess.run(["git", "check-ignore", "-q", left], cwd=ROOT, check=False).returncode == 0


def test_nothing_that_is_kept_is_ignored() -> None:
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == ""
