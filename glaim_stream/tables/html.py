"""The frame of all pages: one HTML file with its style inside, which loads nothing and runs nothing."""

from __future__ import annotations

from html import escape
from pathlib import Path

from glaim_stream.core.printable import printable

_CSS = Path(__file__).with_name("page.css")
# Names come from untrusted messages. Even if one passes the escapes, it loads and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(title: str, body: str, *, css: str = "") -> str:
    """Return a page.

    Args:
        title: title as text.
        body: content as HTML.
        css: further style rules.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{shown(title)}</title><style>{_CSS.read_text()}{css}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def shown(text: str) -> str:
    r"""Untrusted text as HTML; characters that change the direction of a line are shown like `\u202e`."""
    return escape(printable(text))


def cards(numbers: list[tuple[str, str]]) -> str:
    """Numbers with their labels, one card each."""
    return (
        '<section class="numbers">'
        + "".join(f"<div><b>{shown(number)}</b><small>{shown(label)}</small></div>" for number, label in numbers)
        + "</section>"
    )
