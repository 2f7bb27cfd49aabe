"""The demo: everything on this machine with one command, measured, and drawn. `python -m deploy.demo`."""
