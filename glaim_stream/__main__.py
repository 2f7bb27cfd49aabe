"""`python -m glaim_stream` is `glaim-stream`."""

from glaim_stream.cli import main

main()
