"""The type of Kubernetes objects."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]  # a plain dictionary, as in a manifest
