"""The closed form: missing cells of a window as their expectation under a Gaussian that is fitted in seconds."""
