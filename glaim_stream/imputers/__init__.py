"""Windows to values: the protocol, and what implements it."""

from glaim_stream.imputers.protocol import Imputed, Imputer, Rung, Windows

__all__ = ["Imputed", "Imputer", "Rung", "Windows"]
