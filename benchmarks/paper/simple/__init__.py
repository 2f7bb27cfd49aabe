"""Imputers that need no network, on the cells of the paper's tables."""
