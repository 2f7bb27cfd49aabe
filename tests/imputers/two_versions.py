"""The Triton rung before a scripted server of two versions of the model `m`, and a repository with their contracts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.contract import write_contract
from glaim_stream.core.retry import Retry
from glaim_stream.core.trust import Trust
from glaim_stream.imputers.protocol import Windows
from glaim_stream.imputers.remote import triton
from glaim_stream.imputers.remote.triton import TritonImputer
from glaim_stream.models import Contracts
from tests.imputers.kserve import Reply, Versions, versions_served
from tests.support import contract

WINDOWS = Windows("m", np.zeros((1, 2, 6), np.float64), np.zeros((1, 2, 6), np.bool_), 3)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for version in (1, 2):
        add(tmp_path, version)
    return tmp_path


def add(repository: Path, version: int, **fields: object) -> None:
    folder = repository / "m" / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    write_contract(contract(version=version).model_copy(update=fields), folder)


def shorten_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "TRITON", Retry(0.001))


@asynccontextmanager
async def rung_for(
    repository: Path,
    replies: dict[str, Reply],
    *,
    trust: Trust | None = None,
    deadline_s: float = 5,
    shadow: bool = False,
) -> AsyncIterator[tuple[TritonImputer, Versions]]:
    async with versions_served(replies) as (url, server):
        contracts = Contracts({"m": contract(version=2)}, repository, trust=trust)
        imputer = TritonImputer(url, contracts, deadline_s=deadline_s, shadow=shadow)
        try:
            yield imputer, server
        finally:
            await imputer.close()
