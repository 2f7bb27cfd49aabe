"""An example of each extension of glaim-stream."""
