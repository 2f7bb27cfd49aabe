"""Training of GLAIM imputers: data with real gaps in, a scored and served model out."""
