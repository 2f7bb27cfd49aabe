"""Measurements, one script per claim. Results are appended to benchmarks/results, never replaced."""
