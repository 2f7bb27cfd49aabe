"""The page of a worker: its groups, and the live window of one, in a browser. It reads and changes nothing."""
