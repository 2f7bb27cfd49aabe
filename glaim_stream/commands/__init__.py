"""The commands of `glaim-stream`, one module each. They parse and print; library functions do the work."""
