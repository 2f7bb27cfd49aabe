"""Decodes `sensor-readings` into columns of readings; unusable input becomes dead letters."""
