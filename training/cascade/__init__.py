"""Training of the network over the closed form."""
