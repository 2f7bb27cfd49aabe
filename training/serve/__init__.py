"""From a trained network to a version that Triton serves."""
