"""From which offset a partition continues."""

from typing import Any, cast

import pytest

from glaim_stream.core.errors import OwnershipLost
from glaim_stream.kafka import TransactionalPublisher
from glaim_stream.worker.outlet import ExactlyOnce


class Publisher:
    """A publisher of a partition in which `committed` is committed; None: nothing. `begin` fails at first."""

    def __init__(self, committed: int | None) -> None:
        self.committed, self.failures = committed, 1
        self.transactional_id, self.once_from = "group-in-0", None

    async def begin(self) -> int | None:
        if self.failures:
            self.failures -= 1
            raise OwnershipLost("a rebalance")
        return self.committed


def outlet_of(publisher: Publisher) -> tuple[ExactlyOnce, list[int]]:
    """An outlet, and the offsets to which it has moved the consumer; batches carry 9 from then on."""
    moved_to: list[int] = []

    def continue_from(offset: int) -> int:
        moved_to.append(offset)
        return 9

    return ExactlyOnce(cast(TransactionalPublisher, cast(Any, publisher)), continue_from), moved_to


@pytest.mark.parametrize(("committed", "start"), [(None, 0), (3, 3), (5, 5)])
async def test_a_batch_that_was_dropped_before_the_first_commit_is_read_again(
    committed: int | None, start: int
) -> None:
    publisher = Publisher(committed)
    outlet, moved_to = outlet_of(publisher)
    with pytest.raises(OwnershipLost):
        await outlet.begin(0, 1)
    assert await outlet.begin(5, 2) == (start, 2 if start == 5 else 9)
    assert moved_to == ([] if start == 5 else [start])
    assert publisher.once_from == start


@pytest.mark.parametrize(("first", "moves"), [(0, []), (500, [0])])
async def test_without_a_commit_a_partition_begins_at_its_beginning_whatever_is_delivered_first(
    first: int, moves: list[int]
) -> None:
    """In a rebalance the first batches may be dropped, and only the next one be delivered."""
    publisher = Publisher(None)
    publisher.failures = 0
    outlet, moved_to = outlet_of(publisher)
    start, _ = await outlet.begin(first, 0)
    assert (start, moved_to, publisher.once_from) == (0, moves, 0)
