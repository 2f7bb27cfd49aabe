"""Any order of deliveries, answers, losses, seeks, revocations and commits: no commit passes an unanswered record."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from glaim_stream.kafka.offsets import Commit, Delivery, OffsetLedger


def exists(offset: int) -> bool:
    """Return whether compaction has left a record at an offset."""
    return offset % 7 != 3


class LedgerMachine(RuleBasedStateMachine):
    """A consumer of one partition, driven as by Kafka and Faust, and a record of the answered offsets."""

    @initialize()
    def begin(self) -> None:
        self.ledger = OffsetLedger()
        self.position = 0  # where the consumer reads next
        self.furthest = 0
        self.broker: Commit | None = None
        self.deliveries: list[Delivery] = []  # delivered and not answered, including those of earlier owners
        self.answered: set[int] = set()
        self.rebuild_from: dict[int, set[int]] = {}  # next_offset -> rebuild_from of the batches that ended there

    @rule(records=st.integers(1, 6))
    def poll(self, records: int) -> None:
        found = []
        offset = self.position
        while len(found) < records:
            found += [offset] if exists(offset) else []
            offset += 1
        self.position = found[-1] + 1
        self.furthest = max(self.furthest, self.position)
        self.deliveries.append(self.ledger.deliver(found[0], found[-1] + 1))

    @precondition(lambda self: self.deliveries)
    @rule(which=st.integers(0, 99), back=st.integers(0, 9))
    def answer(self, which: int, back: int) -> None:
        """Answer a batch. A failed one is answered too: its records become dead letters, which are acknowledged."""
        delivery = self.deliveries.pop(which % len(self.deliveries))
        rebuild_from = max(0, delivery.next_offset - back)
        delivery.answer(rebuild_from)
        self.answered |= set(range(delivery.first_offset, delivery.next_offset))
        self.rebuild_from.setdefault(delivery.next_offset, set()).add(rebuild_from)

    @precondition(lambda self: self.deliveries)
    @rule(which=st.integers(0, 99))
    def lose(self, which: int) -> None:
        """Faust drops an event, as it does when it clears its buffers in a rebalance."""
        self.deliveries.pop(which % len(self.deliveries))

    @rule()
    def commit(self) -> None:
        found = self.ledger.committable()
        if found is not None and (self.broker is None or found.offset > self.broker.offset):
            self.broker = found

    @rule()
    def seek_to_committed(self) -> None:
        self.position = self.broker.offset if self.broker is not None else 0

    @rule(back=st.integers(0, 20))
    def go_back(self, back: int) -> None:
        """Go back, as when a poll from before a seek arrives after it; this must do no harm."""
        self.position = max(self.position - back, self.broker.offset if self.broker is not None else 0)

    @rule()
    def revoke_and_assign_again(self) -> None:
        """Drop the ledger of a revoked partition; batches in flight may still be answered."""
        self.ledger = OffsetLedger()
        self.seek_to_committed()

    @invariant()
    def no_commit_passes_an_unanswered_record(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for commit in (self.ledger.committable(), self.broker):
            if commit is not None:
                unanswered = [n for n in range(commit.offset) if exists(n) and n not in self.answered]
                assert not unanswered, f"a commit at {commit.offset} passes {unanswered}"
                assert commit.rebuild_from in self.rebuild_from[commit.offset], "the metadata belongs to another batch"
                assert commit.rebuild_from <= commit.offset

    def teardown(self) -> None:
        """Check that the next owner can commit after any losses: it receives the records again and answers them."""
        if not hasattr(self, "ledger"):
            return
        self.revoke_and_assign_again()
        while self.position < self.furthest:
            self.poll(3)
            self.answer(len(self.deliveries) - 1, 0)
        commit = self.ledger.committable()
        assert self.furthest == 0 or max(c.offset for c in (commit, self.broker) if c is not None) >= self.furthest


LedgerMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=40)
TestLedger = LedgerMachine.TestCase
