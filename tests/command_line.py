"""`glaim-stream` called inside the test's process, which saves the start of an interpreter."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from glaim_stream.commands.main import main


def call(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `glaim-stream` with these arguments and no other environment variables."""
    output, errors = io.StringIO(), io.StringIO()
    status: object = 0
    with (
        patch.dict(os.environ, environment, clear=True),
        patch.object(sys, "argv", ["glaim-stream", *arguments]),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code
    assert status is None or isinstance(status, int), status
    return subprocess.CompletedProcess(arguments, status or 0, output.getvalue(), errors.getvalue())
