"""Windows to values: the imputer protocol and its implementations."""

from glaim_stream.imputers.protocol import Imputed, Imputer, Rung, Windows

__all__ = ["Imputed", "Imputer", "Rung", "Windows"]
