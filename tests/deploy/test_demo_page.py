"""The page of the demo's worker: when it is opened, and its address."""

import pytest

from deploy.demo.options import parse


def test_the_page_is_opened_where_somebody_can_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    assert not parse([]).open, "the output of a test is no terminal"
    assert parse(["--open"]).open
    assert not parse(["--no-open"]).open
