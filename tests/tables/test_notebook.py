"""The notebook of the documents runs from top to bottom."""

import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tables.ipynb"


def test_the_code_of_the_notebook_runs_and_its_claims_hold(capsys):
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in cells)
    names: dict[str, object] = {"__name__": "__main__"}
    for number, source in enumerate(code):
        exec(compile(source, f"{NOTEBOOK.name}, code cell {number + 1}", "exec"), names)
    imputer = names["imputer"]
    assert imputer.expected_error_["flow"] < imputer.interpolation_error_["flow"]
    assert names["error"] < 2 * imputer.expected_error_["flow"]
    assert names["inside"] > 0.75
    assert "within the band" in capsys.readouterr().out
