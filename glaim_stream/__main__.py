"""`python -m glaim_stream` is `glaim-stream`."""

from glaim_stream.commands.main import main

main()
