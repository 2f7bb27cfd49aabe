"""Connections to brokers and servers: TLS, certificates and secrets from files that may change, and retries."""
