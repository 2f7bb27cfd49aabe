"""The closed form's threads of BLAS, in a process whose environment leaves BLAS all cores."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
from glaim_stream import impute
from glaim_stream.core.blas import one_thread, threads

before = threads()
seen = set()
solve = np.linalg.solve
def watched(*arguments):
    seen.add(threads())
    return solve(*arguments)
np.linalg.solve = watched
rng = np.random.default_rng(0)
table = np.cumsum(rng.normal(size=(600, 3)), axis=0)
table[rng.random(table.shape) < 0.1] = np.nan
impute(table)
with one_thread(), one_thread():
    inner = threads()
try:
    with one_thread():
        raise ValueError
except ValueError:
    pass
print(before, sorted(seen), inner, threads())
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one thread in any case")
def test_impute_solves_with_one_thread_and_restores_the_number() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**environment, "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split("\n")[0] == "2 [1] 1 2"
