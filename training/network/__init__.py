"""The GLAIM network and its fast kernels."""
