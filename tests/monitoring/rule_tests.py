"""Unit tests of the rules, as promtool reads them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml


def write_test(rules: Path, test: dict[str, Any], minutes: int) -> Path:
    """Write a test of the rules, which are evaluated every so many minutes, beside them.

    Groups are evaluated in the order of the file: those that are not listed come in any order, so an alert would see
    records one evaluation old in some runs. A server evaluates them once a minute, a test of many hours every five.
    """
    groups = [group["name"] for group in yaml.load(rules.read_text(), yaml.CSafeLoader)["groups"]]
    file = rules.with_name(f"{rules.stem}-unit.yaml")
    file.write_text(
        json.dumps(
            {
                "rule_files": [str(rules)],
                "group_eval_order": groups,
                "evaluation_interval": f"{minutes}m",
                "tests": [test],
            }
        )
    )
    return file


def run_rules(promtool: Path, rules: Path, test: dict[str, Any], minutes: int) -> str:
    """What promtool prints about one test of the rules; see `write_test`."""
    done = subprocess.run(
        [promtool, "test", "rules", write_test(rules, test, minutes)],
        capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr
