"""Notes for people on the form of a file."""

from __future__ import annotations

from collections.abc import Mapping

from glaim_stream.core.errors import listed
from glaim_stream.files.form import FileForm


def group_notes(form: FileForm, groups: int) -> list[str]:
    """Notes on how the rows are told apart."""
    if form.layout == "long":
        of = f", group {form.group!r}" if form.group else ""
        return [f"a reading a row: sensor is {form.sensor!r}, value {form.value!r}{of}"]
    return [f"a row a time and group: group is {form.group!r}, {groups} groups"] if form.group else []


def unused_notes(unused: Mapping[str, str]) -> list[str]:
    """Notes on unused columns, by reason."""
    reasons: dict[str, list[str]] = {}
    for column, reason in unused.items():
        reasons.setdefault(reason, []).append(column or "one without a name")
    return [f"left out: {listed(columns)} ({reason})" for reason, columns in reasons.items()]


def order_notes(form: FileForm) -> list[str]:
    """Notes on rows without a time, repeated times, and rows out of order."""
    notes = []
    what = "depth" if form.kind == "las" else "time"
    if form.untimed:
        notes.append(f"{form.untimed} rows without a {what} are left out")
    if form.duplicates:
        notes.append(f"{form.duplicates} rows repeat a {what} of their group")
    if form.out_of_order and not form.axis:
        notes.append(
            f"{form.out_of_order} rows are out of order, by up to {form.lateness_ms / 1000:g} s (lateness_s of a "
            "catalogue should be no less)"
        )
    return notes
