"""The batches of an epoch are the same from any position in it, on any device, with or without a thread."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from training.data.batches import DeviceWindows, HostWindows, ahead, draw
from training.data.masks import MaskSpec
from training.data.series import Floats
from training.data.windows import WindowSet

MASKS = MaskSpec(pattern="deployment")


@pytest.fixture
def values() -> Floats:
    """Two groups of three sensors over 120 rows, a tenth of the cells missing."""
    rng = np.random.default_rng(3)
    found = rng.standard_normal((2, 3, 120)).astype(np.float32)
    found[rng.random(found.shape) < 0.1] = np.nan
    return found


def test_a_draw_resumes_after_any_batch_without_a_difference(values: Floats) -> None:
    windows = WindowSet(values, 24)
    whole = list(draw(windows, MASKS, 16, 2021, 4))
    assert len(whole) == len(windows) // 16
    for done in (1, 5, len(whole)):
        rest = list(draw(windows, MASKS, 16, 2021, 4, whole[done - 1].after, done))
        assert len(rest) == len(whole) - done
        for one, other in zip(whole[done:], rest, strict=True):
            np.testing.assert_array_equal(one.windows, other.windows)
            np.testing.assert_array_equal(one.hidden, other.hidden)


def test_each_epoch_draws_every_window_once_in_a_different_order(values: Floats) -> None:
    windows = WindowSet(values, 24)
    orders = [np.concatenate([batch.windows for batch in draw(windows, MASKS, 1, 2021, epoch)]) for epoch in (0, 1)]
    assert not np.array_equal(*orders)
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(len(windows)))


def test_a_set_smaller_than_a_batch_is_one_batch(values: Floats) -> None:
    windows = WindowSet(values, 24, stride=60)
    assert [len(batch.windows) for batch in draw(windows, MASKS, 16, 1, 0)] == [len(windows)]


@pytest.mark.parametrize("rows", [slice(0, 16), slice(5, 11)])
def test_windows_on_the_device_equal_windows_cut_on_the_host_to_the_bit(values: Floats, rows: slice) -> None:
    windows, place = WindowSet(values, 24, minimum_observed=0.5), torch.device("cpu")
    host, device = HostWindows(place), DeviceWindows(values, windows, place)
    for drawn in itertools.islice(draw(windows, MASKS, 16, 7, 0), 5):
        for one, other in zip(host.tensors(drawn, rows), device.tensors(drawn, rows), strict=True):
            assert one.shape == (rows.stop - rows.start, 3, 24)
            assert torch.equal(one, other)


def test_a_thread_makes_the_same_batches_and_passes_errors_on(values: Floats) -> None:
    windows = WindowSet(values, 24)
    plain = draw(windows, MASKS, 16, 7, 0)
    threaded = ahead(draw(windows, MASKS, 16, 7, 0), 3)
    for one, other in zip(plain, threaded, strict=True):
        np.testing.assert_array_equal(one.hidden, other.hidden)

    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    items = ahead(broken(), 3)
    assert next(items) == 1
    with pytest.raises(ValueError, match="no more"):
        next(items)


def test_the_preparing_thread_ends_with_its_consumer() -> None:
    made: list[int] = []

    def count() -> Iterator[int]:
        for number in itertools.count():
            made.append(number)
            yield number

    items = ahead(count(), 2)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    items.close()  # type: ignore[attr-defined]
    assert len(made) < 10
