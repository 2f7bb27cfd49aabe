"""The training run behind `python -m training.fit`."""
