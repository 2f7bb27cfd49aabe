"""The commands of `glaim-stream`, one module each. They parse and print; what they do is a library function beside."""
