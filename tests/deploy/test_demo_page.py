"""The page of the demo's worker: when it is opened, and its address."""

import threading

import pytest

from deploy.demo import open_page as module
from deploy.demo.open_page import has_screen, open_page
from deploy.demo.options import parse


@pytest.mark.parametrize(
    ("platform", "environment", "found"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ""}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("darwin", {}, True),
        ("darwin", {"SSH_CONNECTION": "10.0.0.1"}, False),
    ],
)
def test_a_screen_is_there_or_not(
    platform: str, environment: dict[str, str], found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.sys, "platform", platform)
    assert has_screen(environment) is found


def test_the_page_is_opened_where_somebody_can_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    assert not parse([]).open, "the output of a test is no terminal"
    assert parse(["--open"]).open
    assert not parse(["--no-open"]).open


def test_the_demo_does_not_wait_for_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, called, go_on = [], threading.Event(), threading.Event()

    def slow(address: str) -> bool:
        opened.append(address)
        called.set()
        return go_on.wait(10)

    monkeypatch.setattr(module.webbrowser, "open", slow)
    open_page("http://127.0.0.1:1/")
    assert called.wait(10)
    go_on.set()
    assert opened == ["http://127.0.0.1:1/"]
