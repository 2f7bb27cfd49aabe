"""Credentials of the local API server: a token and a kubeconfig for each component, new for each cluster."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

# User -> (Kubernetes user name, groups). RBAC is on, and each component has its upstream permissions.
USERS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kwok": ("kwok", "system:masters"),  # acts as every node's kubelet
}


def write_signing_key(path: Path) -> None:
    """Write a new RSA key for signing service account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))


def write_tokens(path: Path) -> dict[str, str]:
    """Write the API server's `--token-auth-file` and return user -> token."""
    tokens = {user: secrets.token_urlsafe(24) for user in USERS}
    path.touch(mode=0o600)
    lines = [f'{tokens[user]},{name},{user},"{groups}"' for user, (name, groups) in USERS.items()]
    path.write_text("\n".join(lines) + "\n")
    return tokens


def write_kubeconfig(path: Path, server: str, authority: Path, user: str, token: str) -> None:
    """Write the kubeconfig of a user, as JSON, which is valid YAML."""
    path.touch(mode=0o600)
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "local", "cluster": {"server": server, "certificate-authority": str(authority)}}],
                "users": [{"name": user, "user": {"token": token}}],
                "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
                "current-context": "local",
            },
            indent=1,
        )
    )
