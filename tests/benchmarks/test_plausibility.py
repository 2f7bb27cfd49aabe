"""The streams of the benchmark: the same hidden readings, and spikes of the stated share and sizes in the others."""

import json

import numpy as np

from benchmarks.plausibility import records, streams
from glaim_stream.feed import plant_source


def test_spikes_are_one_in_a_hundred_and_of_ten_to_a_million_deviations() -> None:
    source = plant_source(days=0.5, groups=2, seed=3)
    deviation = np.arange(1.0, 1.0 + len(source.cells))
    made = streams(source, deviation, seed=1)
    assert len(made.clean) + len(made.hidden) == len(source)
    assert 0.09 < len(made.hidden) / len(source) < 0.11
    assert 0.007 < made.spikes.mean() < 0.013
    np.testing.assert_array_equal(made.clean.value[~made.spikes], made.spiked.value[~made.spikes])
    jump = (made.spiked.value - made.clean.value)[made.spikes] / deviation[made.clean.cell[made.spikes]]
    assert (np.abs(jump) > 9.99).all()
    assert (np.abs(jump) < 1.001e6).all()
    assert 0.3 < (jump > 0).mean() < 0.7
    assert 0.5 < np.mean(np.abs(jump) > 1e3) < 0.7  # logarithms are uniform


def test_every_reading_is_in_one_record() -> None:
    source = plant_source(days=0.05, groups=2, seed=3)
    sent = records(source)
    assert len(sent) == 2 * 72
    assert sum(len(json.loads(record.value)["values"]) for record in sent) == len(source)
    assert [record.offset for record in sent] == list(range(len(sent)))
