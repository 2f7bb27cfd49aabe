"""Weights of the experts that fill a hole, learned from their recent errors. Arithmetic only."""
