"""The table for the stream: errors at the newest steps, walking forward. `python -m benchmarks.edge --help`."""
