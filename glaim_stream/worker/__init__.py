"""The live worker: Faust's agent, its transport, rebuilds, health and lag."""
