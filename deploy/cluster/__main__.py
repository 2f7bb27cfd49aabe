"""A local Kubernetes in the foreground, for a person with helm or kubectl; or only its programs, built beforehand."""

from __future__ import annotations

import argparse

from deploy.bring import CANNOT_RUN_HERE
from deploy.cluster import ClusterUnavailable, LocalCluster, control_plane
from deploy.cluster.crds import definitions
from deploy.errors import DeployError
from deploy.runner import run_in_foreground


def main(arguments: list[str] | None = None) -> int:
    """Run a cluster until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.cluster", description="Run a real Kubernetes control plane with fake nodes here."
    )
    parser.add_argument("--port", type=int, help="of the API server (default: a free port)")
    parser.add_argument("--no-crds", action="store_true", help="without the resources of Prometheus operator and KEDA")
    parser.add_argument("--fetch-only", action="store_true", help="build the programs, start nothing")
    options = parser.parse_args(arguments)
    if options.fetch_only:
        try:
            programs = control_plane()
            definitions()
        except ClusterUnavailable as error:
            print(f"a cluster cannot run here: {error}")
            return CANNOT_RUN_HERE
        except DeployError as error:
            print(f"error: {error}")
            return 1
        print(f"cluster: {programs.api_server}")
        return 0
    cluster = LocalCluster(options.port, custom_resources=not options.no_crds)
    return run_in_foreground(cluster, "Kubernetes", lambda: f"export KUBECONFIG={cluster.kubeconfig}")


if __name__ == "__main__":
    raise SystemExit(main())
