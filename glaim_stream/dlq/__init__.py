"""Dead letters looked at and sent back: what the topic of what could not be used holds, and the way out of it."""
