"""What every room may use: settings, catalogue, contracts, errors, metrics, times, TLS and names.

Each module here is a door of its own, because one reader needs the words of a row and another one pydantic.
"""
