"""Findings on closed forms; tests/integration/test_check.py has those on contracts and models."""

from __future__ import annotations

from pathlib import Path

import pytest

from glaim_stream.check.findings import Outcome
from glaim_stream.check.models import form_findings
from glaim_stream.models.contract import FORM_FILE
from glaim_stream.settings import Settings
from tests.support import catalogue


@pytest.mark.parametrize(("content", "found"), [(None, "none: interpolation fills"), (b"no archive", FORM_FILE)])
def test_where_closed_forms_come_first_each_model_without_one_is_a_warning(
    content: bytes | None, found: str, tmp_path: Path
) -> None:
    (tmp_path / "m").mkdir()
    if content is not None:
        (tmp_path / "m" / FORM_FILE).write_bytes(content)
    (finding,) = form_findings(Settings(imputer="gaussian", model_repository=tmp_path), catalogue())
    assert (finding.outcome, finding.subject) == (Outcome.WARNING, "closed form of m")
    assert found in finding.found


@pytest.mark.parametrize("imputer", ["triton", "local", "interpolation"])
def test_other_imputers_need_no_closed_form(imputer: str, tmp_path: Path) -> None:
    assert form_findings(Settings(imputer=imputer, model_repository=tmp_path), catalogue()) == []
