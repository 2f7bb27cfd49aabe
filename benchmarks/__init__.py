"""Measurements, one script a claim. Results are appended to benchmarks/results, never replaced."""
