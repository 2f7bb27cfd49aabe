"""Batches that a worker has received and not answered, as a sentence for the log."""

from __future__ import annotations

import faust
from faust.exceptions import NotReady

from glaim_stream.core.errors import listed


def unanswered(app: faust.App | None) -> str:
    """List the offsets by partition. Any thread may call it, while the event loop runs or hangs."""
    try:
        ledgers = dict(app.consumer.ledgers) if app is not None else {}
        open_ = {tp: ledger.unanswered for tp, ledger in ledgers.items()}
    except NotReady:  # nothing has been read yet
        open_ = {}
    except RuntimeError:  # the event loop has changed a ledger meanwhile
        return "Some input is not answered"
    places = [f"{tp.topic}-{tp.partition} offsets {span[0]} to {span[1] - 1}" for tp, span in open_.items() if span]
    return f"Not answered: {listed(places)}" if places else "All input that was taken is answered"
