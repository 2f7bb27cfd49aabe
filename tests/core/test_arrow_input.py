"""A process that ends while Arrow's threads still read ahead: it must end with its own status."""

import subprocess
import sys

PROGRAM = """
import pyarrow as pa
from pyarrow import csv
from glaim_stream.core.arrow_input import arrow_input

assert arrow_input(b"a,b").read() == b"a,b"
options = csv.ReadOptions(column_names=["a", "b"], block_size=4096)
try:
    csv.read_csv(arrow_input(b"x,y\\nq\\n" + b"x,y\\n" * 200_000), read_options=options)
except pa.ArrowInvalid:
    raise SystemExit(2)
"""


def test_a_refused_table_ends_the_process_with_its_status() -> None:
    """With a BytesIO or a buffer of bytes about one of thirteen runs aborts."""
    ended = {subprocess.run([sys.executable, "-c", PROGRAM], check=False).returncode for _ in range(20)}
    assert ended == {2}
