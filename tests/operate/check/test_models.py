"""Findings on closed forms and on versions; tests/integration/test_check.py has the others on models."""

from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.contract import FORM_FILE, write_contract
from glaim_stream.core.settings import Settings
from glaim_stream.operate.check.findings import Grade
from glaim_stream.operate.check.models import answer_findings, form_findings
from tests.imputers.kserve import versions_served
from tests.support import catalogue, contract


@pytest.mark.parametrize(("content", "found"), [(None, "none: interpolation fills"), (b"no archive", FORM_FILE)])
def test_where_closed_forms_come_first_each_model_without_one_is_a_warning(
    content: bytes | None, found: str, tmp_path: Path
) -> None:
    (tmp_path / "m").mkdir()
    if content is not None:
        (tmp_path / "m" / FORM_FILE).write_bytes(content)
    (finding,) = form_findings(Settings(imputer="gaussian", model_repository=tmp_path), catalogue())
    assert (finding.outcome, finding.subject) == (Grade.WARNING, "closed form of m")
    assert found in finding.found


@pytest.mark.parametrize("imputer", ["triton", "local", "interpolation"])
def test_other_imputers_need_no_closed_form(imputer: str, tmp_path: Path) -> None:
    assert form_findings(Settings(imputer=imputer, model_repository=tmp_path), catalogue()) == []


async def test_a_bad_newest_version_is_a_finding_although_the_former_one_answers(tmp_path: Path) -> None:
    for version in (1, 2):
        (tmp_path / "m" / str(version)).mkdir(parents=True)
        write_contract(contract(version=version), tmp_path / "m" / str(version))
    good, bad = np.ones((1, 2, 3), np.float32), np.full((1, 2, 3), np.nan, np.float32)
    async with versions_served({"1": good, "2": bad}) as (url, _):
        settings = Settings(triton=url, model_repository=tmp_path)
        (finding,) = await answer_findings(settings, {"m": contract(version=2)})
    assert finding.outcome is Grade.WARNING
    assert "version 2 fails, and version 1 answers in its place" in finding.found
    async with versions_served({"1": good, "2": good}) as (url, _):
        settings = Settings(triton=url, model_repository=tmp_path)
        (finding,) = await answer_findings(settings, {"m": contract(version=2)})
    assert finding.outcome is Grade.OK
