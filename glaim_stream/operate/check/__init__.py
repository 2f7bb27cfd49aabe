"""A dry run before anything dangerous: what a worker would need, looked at without changing anything."""
