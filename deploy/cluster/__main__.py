"""Runs a local Kubernetes in the foreground, for use with helm or kubectl, or only builds its programs."""

from __future__ import annotations

import argparse

from deploy.cluster import ClusterUnavailable, LocalCluster, control_plane
from deploy.cluster.crds import definitions
from deploy.fetch import fetch
from deploy.runner import run_in_foreground


def main(arguments: list[str] | None = None) -> int:
    """Run a cluster until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.cluster", description="Run a real Kubernetes control plane with fake nodes here."
    )
    parser.add_argument("--port", type=int, help="port of the API server (default: a free port)")
    parser.add_argument(
        "--no-crds", action="store_true", help="omit the custom resources of the Prometheus operator and KEDA"
    )
    parser.add_argument("--fetch-only", action="store_true", help="build the programs and exit")
    options = parser.parse_args(arguments)
    if options.fetch_only:
        return fetch(_fetched, named="The local cluster", unavailable=ClusterUnavailable)
    cluster = LocalCluster(options.port, custom_resources=not options.no_crds)
    return run_in_foreground(cluster, "Kubernetes", lambda: f"export KUBECONFIG={cluster.kubeconfig}")


def _fetched() -> str:
    programs = control_plane()
    definitions()
    return f"cluster: {programs.api_server}"


if __name__ == "__main__":
    raise SystemExit(main())
