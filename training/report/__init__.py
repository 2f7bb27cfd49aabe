"""The report page of a run, report.html, and the same numbers in report.json.

`training.fit` writes it; the demo's page in `deploy` draws with the same elements of SVG, without torch.
"""

from typing import TYPE_CHECKING

from glaim_stream.core.doors import opened

if TYPE_CHECKING:
    from training.report.svg import PixelScale, alike, element, number, path, text, ticks, time_ticks
    from training.report.write import write_page

__all__ = [
    "PixelScale",
    "alike",
    "element",
    "number",
    "path",
    "text",
    "ticks",
    "time_ticks",
    "write_page",
]

__getattr__ = opened(__name__)
