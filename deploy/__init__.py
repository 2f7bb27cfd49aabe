"""What a running system needs around the worker: local Kafka and Triton, container files, monitoring."""
