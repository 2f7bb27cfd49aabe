"""Exit codes of all commands, in one place: their help and docs/commands.md show this table."""

from __future__ import annotations

DONE, ANSWER_IS_NO, UNUSABLE, REFUSED = 0, 1, 2, 3
INTERRUPTED, TERMINATED = 130, 143

EXIT_CODES = {
    DONE: "done",
    ANSWER_IS_NO: "it ran, and the result is negative: a check or an audit found something wrong, messages were not "
    "delivered, an imputer failed, or no row came out",
    UNUSABLE: "it cannot be used as asked: a flag, setting, file, name or server; nothing was written",
    REFUSED: "fit: the model is no better than interpolation and last value, and was not exported",
    INTERRUPTED: "ended by Ctrl-C",
    TERMINATED: "ended by SIGTERM; worker and tail finish their work first and exit with 0 or 130",
}


def help_text() -> str:
    """The table for a help page."""
    lines = [f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()]
    return "\n\n".join(["Exit codes:", *lines])
