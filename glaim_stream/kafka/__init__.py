"""Kafka outside of Faust: connections, topics, ranges of offsets, publishing."""
