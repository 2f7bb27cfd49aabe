"""Sends readings of a file or the simulated plant to the input topic, at a chosen speed, with dropouts on request."""
