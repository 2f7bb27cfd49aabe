"""Deployment tools around the worker: local Kafka and Triton servers, container images, monitoring."""
