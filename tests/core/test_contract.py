"""contract.json: the round trip, and the rejection of inconsistent contracts."""

import json
from pathlib import Path
from typing import Any

import pytest

from glaim_stream.core.contract import (
    CONTRACT_FILE,
    file_digest,
    read_contract,
    require_weights,
    sensors_digest,
    write_contract,
)
from glaim_stream.core.errors import ContractError
from tests.support import contract

QUANTILES: dict[str, Any] = {
    "gap_ages": [1, 4],
    "newest_lower": [[-1, -2], [-1, -2]],
    "newest_upper": [[1, 2], [1, 2]],
    "interior_lower": [[-0.5, -1], [-0.5, -1]],
    "interior_upper": [[0.5, 1], [0.5, 1]],
}


def test_a_written_contract_is_read_back_from_its_file_or_directory(tmp_path: Path) -> None:
    written = contract(residual_quantiles=QUANTILES)
    path = write_contract(written, tmp_path)
    assert path.name == CONTRACT_FILE
    assert read_contract(tmp_path) == read_contract(path) == written
    assert [file.name for file in tmp_path.iterdir()] == [CONTRACT_FILE], "no partial file is left"


def test_quantile_tables_differ_for_the_newest_step_and_the_interior() -> None:
    quantiles = contract(residual_quantiles=QUANTILES).residual_quantiles
    assert quantiles is not None
    lower, upper = quantiles.table(newest=True)
    assert (lower.tolist()[0], upper.tolist()[0]) == ([-1, -2], [1, 2])
    assert quantiles.table(newest=False)[0].tolist()[0] == [-0.5, -1]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"schema_version": 2}'])
def test_a_file_that_is_no_contract_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / CONTRACT_FILE).write_text(text)
    with pytest.raises(ContractError, match="is not a contract of schema version 1"):
        read_contract(tmp_path)


def test_an_absent_contract_is_reported_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"expected a model contract at .*contract\.json, found none"):
        read_contract(tmp_path)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"emitted_steps": 7}, "exceeds the window of 6"),
        ({"name": "../../elsewhere"}, "name"),
        ({"name": ".."}, "name"),
        ({"name": "m\n"}, "name"),
        ({"sensors_sha256": "0"}, "the sensors listed give"),
        ({"unknown": 1}, "Extra inputs"),
        ({"version": 0}, "greater than or equal to 1"),
        ({"residual_quantiles": QUANTILES | {"gap_ages": [4, 1]}}, "must start at 1 or later and ascend"),
        ({"residual_quantiles": QUANTILES | {"gap_ages": [0, 1]}}, "must start at 1 or later and ascend"),
        ({"residual_quantiles": QUANTILES | {"gap_ages": [1, 2, 3]}}, r"must be \[sensor\]\[gap age\] \(2, 3\)"),
        ({"residual_quantiles": QUANTILES | {"newest_upper": [[1, 2]]}}, r"found \(1, 2\)"),
    ],
)
def test_an_inconsistent_contract_is_rejected(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        contract(**overrides)


def test_ragged_quantiles_in_a_file_are_rejected(tmp_path: Path) -> None:
    document = json.loads(contract(residual_quantiles=QUANTILES).model_dump_json())
    document["residual_quantiles"]["newest_lower"] = [[-1], [-1, -2]]
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(document))
    with pytest.raises(ContractError):
        read_contract(tmp_path)


def test_the_order_of_sensors_is_part_of_the_contract() -> None:
    with pytest.raises(ContractError, match="in this order"):
        contract().require_sensors(["s1", "s0"])
    assert sensors_digest(["a", "b"]) != sensors_digest(["b", "a"])
    assert sensors_digest(["a", "b"]) != sensors_digest(["a,b"])


def test_weights_are_checked_by_digest(tmp_path: Path) -> None:
    weights = tmp_path / "model.pt"
    weights.write_bytes(b"weights")
    require_weights(contract(torchscript_sha256=file_digest(weights)), weights.read_bytes())
    with pytest.raises(ContractError, match=r"model\.pt of model m version 1: contract expects sha256 0000"):
        require_weights(contract(), weights.read_bytes())
