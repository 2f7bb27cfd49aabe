"""The commands of `glaim-stream`, one module each. They parse and print; library functions do the work.

Nothing imports them but the entry point `commands.main`.
"""

__all__: list[str] = []
