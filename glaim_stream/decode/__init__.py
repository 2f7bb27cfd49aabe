"""Bytes of `sensor-readings` to columns of readings; what cannot be used becomes a dead letter."""
