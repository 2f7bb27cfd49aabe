"""What can be extended: formats of the input, outputs of a replay, experts of the blend and imputers, each by a name.

Our own are named here; another distribution adds one by an entry point (docs/extending.md):

    [project.entry-points."glaim_stream.formats"]
    senml = "glaim_senml:SenMl"

Nothing is imported before it is used, so that commands start fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from glaim_stream.core.errors import SettingsError


class Registry:
    """The extensions of one kind by name."""

    def __init__(self, kind: str, own: Mapping[str, str] | None = None) -> None:
        """Start with our own, "module:attribute" by name; the group of entry points has the plural of `kind`."""
        self.kind, self.group = kind, f"glaim_stream.{kind}s"
        self._own = [EntryPoint(name, value, self.group) for name, value in (own or {}).items()]

    @property
    def names(self) -> list[str]:
        """All names: our own, then those of other distributions in alphabetical order."""
        return list(dict.fromkeys([entry.name for entry in self._own] + self.added))

    def __contains__(self, name: object) -> bool:
        return any(entry.name == name for entry in self._own) or name in self.added

    @property
    def added(self) -> list[str]:
        """Names that other distributions register, in alphabetical order."""
        return sorted({entry.name for entry in installed(self.group)})

    def find(self, name: str) -> Any:
        """Import what has this name.

        Raises:
            SettingsError: nothing or more than one thing has the name, or it cannot be imported.
        """
        found = [entry for entry in (*self._own, *installed(self.group)) if entry.name == name]
        if len(found) != 1:
            if found:
                owners = [each.dist.name if each.dist else "glaim-stream" for each in found]
                where = " and ".join(f"{each.value} of {owner}" for each, owner in zip(found, owners, strict=True))
                raise SettingsError(f"{self.kind} {name!r}: expected it to be registered once, found {where}")
            known = ", ".join(self.names) or "none"
            raise SettingsError(
                f"expected a registered {self.kind}, {known}; found {name!r}. A distribution "
                f"registers one by an entry point in the group {self.group}"
            )
        try:
            return found[0].load()
        except (ImportError, AttributeError) as error:
            raise SettingsError(f"{self.kind} {name!r}: {found[0].value} cannot be imported: {error}") from error


@cache
def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group; they are read once, because that takes milliseconds."""
    return tuple(entry_points(group=group))


FORMATS = Registry(
    "format",
    {"arrow": "glaim_stream.decode.arrow_records:ARROW", "json": "glaim_stream.decode.json_records:JSON"},
)  # decode.Format, the last one of ours reads what no other detects
OUTPUTS = Registry(
    "output", {"file": "glaim_stream.feed.replay.sinks:FileSink", "topic": "glaim_stream.feed.replay.sinks:TopicSink"}
)  # (where, Settings) -> output.Sink
EXPERTS = Registry("expert")  # (Settings, Catalogue) -> imputers.Expert
IMPUTERS = Registry(
    "imputer",
    {
        "triton": "glaim_stream.imputers.remote.triton:create",
        "local": "glaim_stream.imputers.local:create",
        "gaussian": "glaim_stream.imputers.closed_form:create",
        "interpolation": "glaim_stream.imputers.simple:Interpolation",
        "last_value": "glaim_stream.imputers.simple:LastValue",
    },
)  # (Settings, contracts, models) -> imputers.Rung
