"""Who may look at a page."""

import hmac
from typing import Any

import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.page import access as module
from glaim_stream.page.access import Access

TOKEN = "0123456789abcdef-token"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9465", "127.0.0.1", "127.0.0.1:80", "[::1]:9465", "10.0.0.7:9465", "LOCALHOST:1"]
)  # fmt: skip
def test_addresses_and_localhost_are_known(host: str) -> None:
    assert Access(None).knows_host(host)
    assert Access(TOKEN).knows_host(host)


@pytest.mark.parametrize("host", ["plant.example", "Plant.Example.:443"])
def test_any_name_is_known_where_a_token_keeps_strangers_out(host: str) -> None:
    assert Access(TOKEN).knows_host(host)
    assert not Access(None).knows_host(host)
    assert not Access(TOKEN).may_look({"Host": host}, "c")


@pytest.mark.parametrize("host", [None, "", ":80", "[::1", "[::1]evil", "localhost:80:90", "localhost:x"])
def test_a_malformed_name_is_refused_with_a_token_too(host: str | None) -> None:
    assert not Access(TOKEN).knows_host(host)


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "evil.example:9465", "localhost.evil.example", "127.0.0.1.evil.example", ":80",
             "[::1", "[::1]evil", "localhost:80:90", "localhost:x", "plant.example@evil.example"]
)  # fmt: skip
def test_other_names_are_refused(host: str | None) -> None:
    assert not Access(None).knows_host(host)


def own(**headers: str) -> dict[str, str | None]:
    return {"Host": "localhost:9465", **{name.replace("_", "-"): value for name, value in headers.items()}}


@pytest.mark.parametrize("origin", ["http://localhost:9465", "https://localhost:9465", None])
def test_the_page_itself_may_ask(origin: str | None) -> None:
    assert Access(None).is_own(own() | {"Origin": origin}, navigation=False)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "http://localhost", ""])
def test_other_origins_are_refused_even_when_they_navigate(origin: str) -> None:
    for navigation in (False, True):
        assert not Access(None).is_own(own(Origin=origin), navigation=navigation)


def test_a_link_from_another_site_opens_the_page_and_nothing_else() -> None:
    headers = own(**{"Sec-Fetch-Site": "cross-site"})
    assert Access(None).is_own(headers, navigation=True)
    assert not Access(None).is_own(headers, navigation=False)


def test_without_a_token_everybody_may_look() -> None:
    assert Access(None).may_look({}, "c")
    assert not Access(None).knows_token("")


def test_token_and_cookie_open_and_nothing_else_does() -> None:
    access = Access(TOKEN)
    assert not access.may_look({}, "c")
    assert access.may_look({"Authorization": f"Bearer {TOKEN}"}, "c")
    assert access.may_look({"Cookie": f"x=1; c={access.session}"}, "c")
    for headers in (
        {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": "Bearer "},
        {"Cookie": f"d={access.session}"}, {"Cookie": "c="}, {"Cookie": f"c={TOKEN}"}, {"Cookie": "c=\u00e9"},
        {"Cookie": ";;=;"},
    ):  # fmt: skip
        assert not access.may_look(headers, "c"), headers


def test_the_cookie_is_another_one_in_each_process_and_does_not_follow_from_the_token() -> None:
    assert Access(TOKEN).session != Access(TOKEN).session
    assert len(Access(TOKEN).session) >= 32


def test_every_comparison_of_a_secret_takes_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[Any, Any]] = []
    genuine = hmac.compare_digest

    def compare(one: Any, other: Any) -> bool:
        compared.append((one, other))
        return genuine(one, other)

    monkeypatch.setattr(module.hmac, "compare_digest", compare)
    access = Access(TOKEN)
    for given in ("", "x", TOKEN + "x", TOKEN):
        access.knows_token(given)
    assert len(compared) == 4
    assert {len(each) for pair in compared for each in pair} == {32}, "digests, whose length says nothing"
    access.may_look({"Cookie": "c=wrong"}, "c")
    assert len(compared) == 5


def test_a_short_token_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 16 characters, found 5"):
        Access("short")
