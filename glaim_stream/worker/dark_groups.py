"""The dark groups of a partition, for `glaim_dark_groups`.

The windows forget a group after a window of silence, and an alert must not end because of that. So a group counts until
it returns, at most for 7 days: one that is taken out of operation would count for ever. A restart or a rebalance
begins again with the groups that the rebuilt windows hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glaim_stream.windows import Outage

FORGET_MS = 7 * 86_400_000

Key = tuple[int, str]  # index of the model, name of the group; codes may go to another group


class DarkGroups:
    """The dark groups of one partition."""

    def __init__(self, names: Sequence[str]) -> None:
        """Start without any.

        Args:
            names: the name of each group code, kept up to date by its owner.
        """
        self._names = names
        self._since_ms: dict[Key, int] = {}

    def restart(self, dark: Iterable[tuple[int, int]], now_ms: int) -> None:
        """Take over windows: `dark` holds the model index and group code of each of their dark groups."""
        self._since_ms = {(model, self._names[code]): now_ms for model, code in dark}

    def update(self, outages: Iterable[Outage], now_ms: int) -> None:
        """Apply events in their order, and forget groups that went dark long ago."""
        for outage in outages:
            key = (outage.model_index, self._names[outage.group])
            if outage.kind == "dark":
                self._since_ms.setdefault(key, now_ms)
            else:
                self._since_ms.pop(key, None)
        for key in [key for key, since_ms in self._since_ms.items() if since_ms < now_ms - FORGET_MS]:
            del self._since_ms[key]

    def __len__(self) -> int:
        """Number of dark groups."""
        return len(self._since_ms)
