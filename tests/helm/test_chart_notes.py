"""The notes after an installation: existing commands, names of created objects, and what was not installed."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml

from deploy.cache import CHECKOUT
from glaim_stream.commands.main import app
from tests.helm.matrix import APIS, MATRIX, NAMES, SMALLEST, Values, merged

if TYPE_CHECKING:
    from tests.helm.conftest import Helm

pytestmark = pytest.mark.timeout(1800)

CHART = CHECKOUT / "helm" / "glaim-stream"


@pytest.fixture(scope="module")
def chart_with_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart with its notes in a ConfigMap, because `helm template` does not print notes."""
    copy = tmp_path_factory.mktemp("notes") / "glaim-stream"
    shutil.copytree(CHART, copy)
    notes = copy / "templates" / "NOTES.txt"
    (copy / "templates" / "_notes.tpl").write_text('{{- define "notes" -}}\n' + notes.read_text() + "{{- end }}")
    notes.unlink()
    text = '{{ dict "data" (dict "notes" (include "notes" .)) | toYaml }}\n'
    (copy / "templates" / "notes.yaml").write_text(text)
    return copy


def notes(helm: Helm, chart: Path, values: Values, apis: tuple[str, ...] = ()) -> str:
    file = chart.parent / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    arguments = ["--values", str(file), "--namespace", "plant", "--kube-version", "1.34.0"]
    arguments += [f"--api-versions={api}" for api in apis]
    run = helm("template", "demo", str(chart), "--show-only", "templates/notes.yaml", *arguments)
    assert run.returncode == 0, run.stderr
    return str(yaml.safe_load(run.stdout)["data"]["notes"])


@pytest.mark.parametrize("name", NAMES)
def test_every_command_in_the_notes_exists(helm: Helm, chart_with_notes: Path, name: str) -> None:
    text = notes(helm, chart_with_notes, MATRIX[name], APIS.get(name, ()))
    assert "\n\n\n" not in text
    assert not re.search(r"<no value>|%!|map\[", text)
    program: Any = typer.main.get_command(app)
    commands = [shlex.split(line.partition(" -- ")[2]) for line in text.splitlines() if " -- glaim-stream " in line]
    assert commands
    for _, command, *arguments in commands:
        options = {option for parameter in program.commands[command].params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("--")} <= options


def test_notes_name_the_workers_and_their_port(helm: Helm, chart_with_notes: Path) -> None:
    text = notes(helm, chart_with_notes, merged(SMALLEST, {"metrics": {"port": 9999}}))
    assert "2 worker(s) of consumer group glaim-stream read sensor-readings and write imputed-readings" in text
    assert set(re.findall(r"statefulset/(\S+)", text)) == {"demo-glaim-stream-worker"}
    assert "port-forward demo-glaim-stream-worker-0 9999" in text
    assert "(1 x 1 nvidia.com/gpu)" in text


def test_notes_state_what_was_not_installed_and_why(helm: Helm, chart_with_notes: Path) -> None:
    bare = notes(helm, chart_with_notes, SMALLEST)
    assert "does not serve monitoring.coreos.com/v1" in bare
    assert "does not serve keda.sh/v1alpha1" in bare
    assert "the dashboard, which is enabled together with them" in bare
    alone = notes(helm, chart_with_notes, merged(SMALLEST, {"monitoring": {"dashboard": {"enabled": True}}}))
    assert "The dashboard glaim-stream appears" in alone
    assert "the dashboard, which is enabled together with them" not in alone
    served = notes(helm, chart_with_notes, SMALLEST, ("monitoring.coreos.com/v1", "keda.sh/v1alpha1"))
    assert "Not installed" not in served


def test_notes_show_how_to_start_a_training_manually(helm: Helm, chart_with_notes: Path) -> None:
    text = notes(helm, chart_with_notes, MATRIX["models in a volume, retrained"])
    assert "create job retrain-now --from=cronjob/demo-glaim-stream-training" in text
    assert "create job rollback-now --from=cronjob/demo-glaim-stream-rollback" in text
    assert "retrain-now" not in notes(helm, chart_with_notes, SMALLEST)


def test_notes_suggest_the_simulated_plant_if_it_is_the_catalogue(helm: Helm, chart_with_notes: Path) -> None:
    assert "produce --plant" in notes(helm, chart_with_notes, SMALLEST)
    assert "produce --plant" not in notes(helm, chart_with_notes, MATRIX["outside"])
