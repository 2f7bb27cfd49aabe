"""The folder of the real data sets: the one that GLAIM_DATA names."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def named_folder() -> Path | None:
    """The folder that GLAIM_DATA names; None where it is not set."""
    data = os.environ.get("GLAIM_DATA")
    return Path(data) if data else None


def folder(parser: argparse.ArgumentParser) -> Path:
    """The folder that GLAIM_DATA names; without one the command ends with an error."""
    return named_folder() or parser.error("expected GLAIM_DATA to name the folder of the data sets, found nothing")
