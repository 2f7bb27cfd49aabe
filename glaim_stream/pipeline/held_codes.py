"""Tracks the group codes that are held anywhere, so that all others can be given to other groups.

A code that is given to another group while something still holds it would publish rows under the wrong name. Whatever
outlives one call and holds codes is therefore registered here, and counts for as long as it exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from glaim_stream.decode import GroupIndex

_FEWEST = 4096  # names that are kept in any case: some 1 MB


class Holder(Protocol):
    """Something that holds group codes."""

    def group_codes(self) -> Iterable[NDArray[np.int32]]:
        """Return the codes."""
        ...


HolderType = TypeVar("HolderType", bound=Holder)


class HeldCodes:
    """The holders of group codes, and the moments at which codes are released."""

    def __init__(self, index: GroupIndex) -> None:
        self._index = index
        self._holders: WeakSet[Holder] = WeakSet()
        self._release_at = _FEWEST

    def hold(self, holder: HolderType) -> HolderType:
        """Register a holder for as long as it exists, and return it."""
        self._holders.add(holder)
        return holder

    def release(self) -> None:
        """Release the codes that nobody holds, once the names have doubled since the last time."""
        if len(self._index) <= self._release_at:
            return
        self._index.release(codes for holder in self._holders for codes in holder.group_codes())
        self._release_at = max(_FEWEST, 2 * len(self._index))
