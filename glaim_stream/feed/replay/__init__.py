"""Replays files and topic ranges through the worker's engine, to a topic or a file."""
