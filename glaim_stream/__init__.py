"""Repairs sensor streams while they flow."""
