"""The frame of all pages: one HTML file with its style inside, which loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import repeat
from pathlib import Path

from glaim_stream.core.printable import printable

STYLE = Path(__file__).with_name("pages.css").read_text()  # of all pages, the worker's too
# Names come from untrusted messages. Even if one passes the escapes, it loads and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(title: str, body: str, *, css: str = "") -> str:
    """Return a page.

    Args:
        title: title as text.
        body: content as HTML.
        css: style rules of this page alone.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{shown(title)}</title><style>{STYLE}{css}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def shown(text: str) -> str:
    r"""Untrusted text as HTML; characters that change the direction of a line are shown like `\u202e`."""
    return escape(printable(text))


def cards(numbers: Iterable[tuple[str, str]], kinds: Sequence[str] = ()) -> str:
    """Numbers with their labels, one card each.

    Args:
        numbers: numbers and labels as text.
        kinds: class of each card; `good` and `bad` colour it.
    """
    drawn = (
        f'<div class="{kind}"><b>{shown(number)}</b><small>{shown(label)}</small></div>'
        for (number, label), kind in zip(numbers, kinds or repeat(""), strict=False)
    )
    return f'<section class="numbers">{"".join(drawn)}</section>'
