"""The live worker: Faust's agent and transport, rebuilds, health and lag."""
