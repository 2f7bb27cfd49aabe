"""The paper's tables with our own numbers beside them: `python -m benchmarks.paper --help`."""
