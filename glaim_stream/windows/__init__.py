"""Sliding windows of one partition: columns of readings in, rows of closed steps out. No I/O, no clock."""
