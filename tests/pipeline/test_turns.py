"""When queries may be made: after everything before their block of steps, and never after themselves."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.blend.worth import BLOCK
from glaim_stream.pipeline.turns import Turn, Turns, blocks_of
from tests.pipeline.form_streams import NOW_MS, Form, pipeline_of, records
from tests.support import Neighbours


def test_queries_of_a_block_wait_for_the_last_query_before_it() -> None:
    turns = Turns()
    made = [turns.next({0: (block, block)}) for block in (7, 7, 8, 8, 9)]
    assert [turn.after for turn in made] == [None, None, made[1].settled, made[1].settled, made[3].settled]


def test_a_query_of_two_blocks_does_not_wait_and_the_next_one_waits_for_it() -> None:
    turns = Turns()
    made = [turns.next({0: blocks}) for blocks in ((7, 7), (7, 8), (8, 8), (8, 8))]
    assert [turn.after for turn in made] == [None, None, made[1].settled, made[1].settled]


def test_a_new_block_of_any_model_waits() -> None:
    turns = Turns()
    made = [turns.next(blocks) for blocks in ({0: (1, 1)}, {1: (30, 30)}, {0: (1, 1), 1: (31, 31)}, {0: (2, 2)})]
    assert [turn.after for turn in made[2:]] == [made[1].settled, made[2].settled]


def test_after_a_restart_nothing_before_it_is_waited_for() -> None:
    turns = Turns()
    turns.next({0: (1, 1)})
    turns.restart()
    made = [turns.next({0: (block, block)}) for block in (2, 3)]
    assert [turn.after for turn in made] == [None, made[0].settled]


blocks = st.dictionaries(st.integers(0, 2), st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=3)


@given(st.lists(blocks, max_size=30))
def test_a_query_waits_for_all_probes_of_earlier_blocks_and_only_for_earlier_queries(
    queries: list[dict[int, tuple[int, int]]],
) -> None:
    """In the order of event time, as the windows close: no model goes back to a block."""
    turns, made, newest = Turns(), list[tuple[dict[int, tuple[int, int]], Turn]](), dict[int, int]()
    for query in queries:
        spans = {
            model: (newest.get(model, 0) + ahead, newest.get(model, 0) + ahead + more)
            for model, (ahead, more) in query.items()
        }
        newest |= {model: last for model, (_, last) in spans.items()}
        turn = turns.next(spans)
        settled = [each.settled for _, each in made]
        if turn.after is not None:
            waits = settled.index(turn.after)
            assert all(first == last for first, last in spans.values())
            for earlier, _ in made[waits + 1 :]:
                assert all(earlier[model][0] >= first for model, (first, _) in spans.items() if model in earlier)
        made.append((spans, turn))


def test_the_blocks_are_those_in_which_holes_and_probes_closed() -> None:
    pipeline = pipeline_of(Neighbours(), Form(Neighbours()), gain=0.1)
    slices = list(pipeline.slices(pipeline.windows(), records(3 * BLOCK + 20), now_ms=NOW_MS))
    assert [pipeline.blocks(each.closed, each.probes) for each in slices] == [{0: (n, n)} for n in range(4)]
    closed, probes = [[part for each in slices for part in getattr(each, name)] for name in ("closed", "probes")]
    assert blocks_of(closed, probes, [1000]) == {0: (0, 3)}
    assert blocks_of([], [], [1000]) == {}


def test_where_the_model_never_rests_steps_of_many_blocks_are_one_slice() -> None:
    pipeline = pipeline_of(Neighbours(), Form(Neighbours()))
    (whole,) = pipeline.slices(pipeline.windows(), records(3 * BLOCK + 20), now_ms=NOW_MS)
    assert pipeline.blocks(whole.closed, whole.probes) == {}


async def test_a_query_without_windows_does_not_wait() -> None:
    pipeline = pipeline_of(Neighbours(), Form(Neighbours()), gain=0.1)
    async with asyncio.timeout(5):
        assert await pipeline.query([], after=asyncio.Event()) == []
