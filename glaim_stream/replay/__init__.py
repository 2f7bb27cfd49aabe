"""Files and topic ranges through the very same core as the worker's, to a topic or a file."""
