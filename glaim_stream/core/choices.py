"""Values of settings that are one of several names, apart from the settings so that commands start fast."""

from __future__ import annotations

from typing import Literal

LogLevel = Literal["debug", "info", "warning", "error"]
