"""`python -m glaim_stream.feed.plant` writes a simulated plant to a Parquet file."""

from glaim_stream.feed.plant import main

main()
