"""Readings into the input topic: from a file or the simulated plant, at a chosen speed, with dropouts if asked."""
