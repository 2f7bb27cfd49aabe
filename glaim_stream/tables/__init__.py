"""Fills the holes of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from glaim_stream.tables.cells import Outcome, fill_cells, require_insertable
    from glaim_stream.tables.columns import beside
    from glaim_stream.tables.fill import Group, fill_groups
    from glaim_stream.tables.groups import Form, Progress
    from glaim_stream.tables.network import NetworkForm
    from glaim_stream.tables.output_files import same_file, whole_file
    from glaim_stream.tables.pages import page
    from glaim_stream.tables.summary import described, method_name, summed
    from glaim_stream.tables.user_file import UserFile, cells_of, open_file, require_additions, write
    from glaim_stream.tables.work import Work

__all__ = [
    "Form",
    "Group",
    "NetworkForm",
    "Outcome",
    "Progress",
    "UserFile",
    "Work",
    "beside",
    "cells_of",
    "described",
    "fill_cells",
    "fill_groups",
    "method_name",
    "open_file",
    "page",
    "require_additions",
    "require_insertable",
    "same_file",
    "summed",
    "whole_file",
    "write",
]

__getattr__ = opened(__name__)
