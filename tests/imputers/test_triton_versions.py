"""The Triton rung when the server answers with another version of a model."""

from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.contract import write_contract
from glaim_stream.core.errors import ImputerError
from glaim_stream.imputers.protocol import Windows
from glaim_stream.imputers.remote.triton import TritonImputer
from glaim_stream.models import Contracts
from tests.imputers.kserve import served
from tests.support import contract

WINDOWS = Windows("m", np.zeros((1, 2, 6), np.float32), np.zeros((1, 2, 6), np.bool_), 3)


async def answer_of_version_2(repository: Path, **changes: object) -> Contracts:
    """The contracts known after one answer of version 2, whose contract has these changes."""
    directory = repository / "m" / "2"
    directory.mkdir(parents=True)
    write_contract(contract(version=2, **changes), directory)
    contracts = Contracts({"m": contract()}, repository)
    async with served(np.zeros((1, 2, 3), np.float32), version="2") as (url, _):
        imputer = TritonImputer(url, contracts, deadline_s=30)
        try:
            answer = await imputer.impute(WINDOWS)
        finally:
            await imputer.close()
    assert answer.version == ["2"]
    return contracts


async def test_the_contract_of_a_new_version_is_read_with_its_first_answer(tmp_path: Path) -> None:
    contracts = await answer_of_version_2(tmp_path, git_commit="later")
    found = contracts.of("m", "2")
    assert found is not None
    assert found.git_commit == "later"


async def test_values_of_a_version_with_other_windows_are_not_used(tmp_path: Path) -> None:
    with pytest.raises(ImputerError, match="m version 2 is rejected because its windows differ"):
        await answer_of_version_2(tmp_path, step_s=2.0)
