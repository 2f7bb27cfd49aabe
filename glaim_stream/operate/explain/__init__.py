"""Explains a published value: the window it was filled from, and what each reading of it contributed."""
