"""Closed steps and filled values to the messages that leave: rows, dead letters and outages."""
