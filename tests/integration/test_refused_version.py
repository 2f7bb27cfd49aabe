"""A real Triton serves a version whose contract has other sensors: the ladder skips it."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from deploy.cache import CHECKOUT
from deploy.triton import ExternalTriton, LocalTriton
from glaim_stream.core.contract import read_contract, sensors_digest, write_contract
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.protocol import Windows
from glaim_stream.imputers.remote.triton import TritonImputer
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.models.versions import Contracts
from glaim_stream.output.records import Method

MODEL = "plant-pump"


async def test_a_version_with_other_sensors_is_rejected_and_interpolation_fills(
    triton: LocalTriton | ExternalTriton, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = read_contract(CHECKOUT / "model_repo" / MODEL)
    swapped = [*served.sensors[1:], served.sensors[0]]
    other = served.model_copy(
        update={"sensors": swapped, "sensors_sha256": sensors_digest([sensor.id for sensor in swapped])}
    )
    folder = tmp_path / MODEL / str(served.version)
    folder.mkdir(parents=True)
    write_contract(other, folder)
    started_with = served.model_copy(update={"version": served.version + 1})
    rung = TritonImputer(triton.grpc_url, Contracts({MODEL: started_with}, tmp_path), deadline_s=60)
    ladder = Ladder([rung, Interpolation()])
    shape = (2, len(served.sensors), served.window)
    observed = np.broadcast_to(np.arange(served.window) % 3 > 0, shape)
    windows = Windows(MODEL, np.ones(shape, np.float32), observed, 9)
    with caplog.at_level(logging.ERROR, "glaim_stream.models.versions"):
        for _ in range(3):
            answer = await ladder.impute(windows)
            assert set(answer.version) == {""}
            assert set(np.unique(answer.method)) <= {Method.INTERPOLATION, Method.LAST_VALUE}
    await ladder.close()
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert f"{MODEL} version {served.version} is rejected" in line
    assert str(started_with.sensor_ids) in line
