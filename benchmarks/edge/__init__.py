"""The table for the stream: how far off the newest steps are, walking forward. `python -m benchmarks.edge --help`."""
