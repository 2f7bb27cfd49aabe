"""Learns the closed form of a model from readings, and places it where workers find it."""
