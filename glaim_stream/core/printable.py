"""Text of unknown origin for a terminal: names, keys and headers are what any producer wrote."""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    r"""Replace what a terminal would obey instead of showing: `\x1b` for an escape character, `\u202e` for an override.

    These are control and format characters, line ends among them, so that a name cannot pretend to be another line.

    Args:
        text: text to be shown.
        keep: characters that stay, such as the line ends of a document.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode() for char in text
    )
