"""Finds out the form of a file of readings once, and reads it: `read` returns a `Reading` with its `FileForm`."""
