"""Catalogues and contracts with any content are read, or rejected with a reason."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from deploy.cache import CHECKOUT
from glaim_stream.core.catalogue import Catalogue, parse_catalogue, read_catalogue
from glaim_stream.core.contract import CONTRACT_FILE, read_contract
from glaim_stream.core.errors import CatalogueError, ContractError
from glaim_stream.windows import PartitionWindows
from tests.fuzzing import altered, broken, documents

CATALOGUE = (CHECKOUT / "deploy" / "catalogues" / "plant.yaml").read_bytes()
CONTRACT = (CHECKOUT / "model_repo" / "plant-pump" / CONTRACT_FILE).read_bytes()
CATALOGUE_NAMES = [
    "models",
    "groups",
    "max_ahead_s",
    *sorted({*yaml.safe_load(CATALOGUE)["models"][0]}),
    "ids",
    "pattern",
]
CONTRACT_NAMES = sorted({*json.loads(CONTRACT)})


@given(st.one_of(documents(CATALOGUE_NAMES), altered(yaml.safe_load(CATALOGUE), CATALOGUE_NAMES)))
def test_a_catalogue_with_any_content_is_used_or_rejected(document: Any) -> None:
    with suppress(CatalogueError):
        found = parse_catalogue(document, source="fuzz")
        assert isinstance(found, Catalogue)
        assert found.model_of("pump-1") in (None, *range(len(found.models)))
        if max(model.window * len(model.sensors) for model in found.models) < 10_000:
            assert PartitionWindows(found).groups == 0, "an accepted catalogue can be run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(st.one_of(st.binary(max_size=80), broken(st.just(CATALOGUE))))
def test_a_catalogue_of_any_bytes_is_read_or_rejected(folder: Path, content: bytes) -> None:
    path = folder / "groups.yaml"
    path.write_bytes(content)
    try:
        found = read_catalogue(path)
    except CatalogueError as error:
        reason = str(error)
    else:
        reason = f"{path}: {len(found.models)} models"
        assert found.models
    assert str(path) in reason


@given(
    st.one_of(
        st.binary(max_size=80),
        broken(st.just(CONTRACT)),
        st.one_of(documents(CONTRACT_NAMES), altered(json.loads(CONTRACT), CONTRACT_NAMES)).map(
            lambda document: json.dumps(document).encode()
        ),
    )
)
def test_a_contract_of_any_bytes_is_read_or_rejected(folder: Path, content: bytes) -> None:
    path = folder / CONTRACT_FILE
    path.write_bytes(content)
    try:
        found = read_contract(path)
    except ContractError as error:
        reason = str(error)
    else:
        reason = f"{path}: {len(found.sensors)} sensors"
        assert found.sensors
        if found.residual_quantiles is not None:
            found.residual_quantiles.table(newest=True)
    assert str(path) in reason
