"""The demo: `python -m deploy.demo` runs the whole system on this machine, measures it and draws a report."""
