"""The training run: `python -m training.fit`."""
