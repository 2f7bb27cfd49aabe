"""Columns of readings to closed steps: the sliding windows of one partition. Pure numpy."""
