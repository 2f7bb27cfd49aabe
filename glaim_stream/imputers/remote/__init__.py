"""The imputer that asks NVIDIA Triton, and the way to its server."""
