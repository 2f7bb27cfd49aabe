"""Values of settings that are one of several names, apart from the settings so that commands start fast."""

from __future__ import annotations

from typing import Literal

Imputer = Literal["triton", "local", "gaussian", "interpolation", "last_value"]
LogLevel = Literal["debug", "info", "warning", "error"]
