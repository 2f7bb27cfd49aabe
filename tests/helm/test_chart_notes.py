"""What helm says after an installation: commands that exist, about objects that were made, and what was left out."""

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
from tests.helm.matrix import APIS, MATRIX, SMALLEST, Values, merged

if TYPE_CHECKING:
    from tests.helm.conftest import Helm

pytestmark = pytest.mark.timeout(1800)

CHART = CHECKOUT / "helm" / "glaim-stream"


@pytest.fixture(scope="module")
def talking_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart with its notes in a ConfigMap, for `helm template` shows none."""
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


@pytest.mark.parametrize("name", MATRIX)
def test_every_command_in_them_exists(helm: Helm, talking_chart: Path, name: str) -> None:
    text = notes(helm, talking_chart, MATRIX[name], APIS.get(name, ()))
    assert "\n\n\n" not in text
    assert not re.search(r"<no value>|%!|map\[", text)
    program: Any = typer.main.get_command(app)
    commands = [shlex.split(line.partition(" -- ")[2]) for line in text.splitlines() if " -- glaim-stream " in line]
    assert commands
    for _, command, *words in commands:
        options = {option for parameter in program.commands[command].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_they_name_the_workers_and_their_port(helm: Helm, talking_chart: Path) -> None:
    text = notes(helm, talking_chart, merged(SMALLEST, {"metrics": {"port": 9999}}))
    assert "2 worker(s) of consumer group glaim-stream read sensor-readings and write imputed-readings" in text
    assert set(re.findall(r"statefulset/(\S+)", text)) == {"demo-glaim-stream-worker"}
    assert "port-forward demo-glaim-stream-worker-0 9999" in text
    assert "(1 x 1 nvidia.com/gpu)" in text


def test_they_say_what_was_not_installed_and_why(helm: Helm, talking_chart: Path) -> None:
    bare = notes(helm, talking_chart, SMALLEST)
    assert "does not serve monitoring.coreos.com/v1" in bare
    assert "does not serve keda.sh/v1alpha1" in bare
    assert "the dashboard, which is enabled together with them" in bare
    alone = notes(helm, talking_chart, merged(SMALLEST, {"monitoring": {"dashboard": {"enabled": True}}}))
    assert "The dashboard glaim-stream appears" in alone
    assert "the dashboard, which is enabled together with them" not in alone
    served = notes(helm, talking_chart, SMALLEST, ("monitoring.coreos.com/v1", "keda.sh/v1alpha1"))
    assert "Not installed" not in served


def test_a_training_can_be_started_by_hand(helm: Helm, talking_chart: Path) -> None:
    text = notes(helm, talking_chart, MATRIX["models in a volume, trained anew"])
    assert "create job retrain-now --from=cronjob/demo-glaim-stream-training" in text
    assert "create job rollback-now --from=cronjob/demo-glaim-stream-rollback" in text
    assert "retrain-now" not in notes(helm, talking_chart, SMALLEST)


def test_the_simulated_plant_is_offered_where_it_is_the_catalogue(helm: Helm, talking_chart: Path) -> None:
    assert "produce --plant" in notes(helm, talking_chart, SMALLEST)
    assert "produce --plant" not in notes(helm, talking_chart, MATRIX["outside"])
