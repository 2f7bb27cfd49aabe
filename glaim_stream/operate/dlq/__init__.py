"""Reads dead letters and late readings from their topics, and sends them back to the input topic."""
