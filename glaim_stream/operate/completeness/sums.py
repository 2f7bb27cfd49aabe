"""The figures of each sensor of a topic range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.figures import SensorDays
from glaim_stream.operate.completeness.row_file import RowFile
from glaim_stream.operate.completeness.spans import GroupSpan
from glaim_stream.operate.completeness.tally import Span, Tally


class Sums:
    """The figures of all sensors of some groups.

    Attributes:
        sensors: sensors with expected cells.
        outside: number of late cells outside of the stretch in which their group was expected.
    """

    def __init__(self, file: RowFile, spans: Iterable[GroupSpan], days: Days) -> None:
        """Count the cells; memory holds only the figures, and the rows of one sensor at a time."""
        self._file, self._days = file, days
        self._spans: Mapping[int, GroupSpan] = {span.group: span for span in spans}
        self.sensors: list[SensorDays] = []
        self.outside = 0
        self._count()

    def _count(self) -> None:
        silent = {
            (group, sensor)
            for group in self._spans
            for sensor in range(len(self._file.catalogue.models[self._file.index.model_of_group[group]].sensors))
        }
        current: tuple[int, int] | None = None
        tally: Tally | None = None
        for group, sensor, cells in self._file.series():
            if group not in self._spans:
                continue
            if (group, sensor) != current:
                self._keep(current, tally)
                current = (group, sensor)
                tally = self._begun(*current)
                silent.discard(current)
            assert tally is not None
            tally.add(cells)
        self._keep(current, tally)
        for each in sorted(silent):
            self._keep(each, self._begun(*each))

    def _begun(self, group: int, sensor: int) -> Tally:
        span = self._spans[group]
        return Tally(self._days, Span.between(span.first_ms, span.end_ms, self._file.cell_ms(group, sensor)))

    def _keep(self, place: tuple[int, int] | None, tally: Tally | None) -> None:
        if place is None or tally is None:
            return
        group, sensor = place
        figures = tally.finish()
        self.outside += tally.outside
        if len(figures):
            model = self._file.catalogue.models[self._file.index.model_of_group[group]]
            cell_ms = self._file.cell_ms(group, sensor)
            self.sensors.append(
                SensorDays(self._file.index.names[group], model.sensor_ids[sensor], cell_ms, figures, tally.longest_gap)
            )
