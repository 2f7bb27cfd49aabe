"""The command lines of the control plane's processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deploy.cluster.programs import Programs
from deploy.ports import LOOPBACK


@dataclass(frozen=True)
class Layout:
    """The folder and the ports of one cluster."""

    home: Path
    etcd_port: int
    etcd_peer_port: int
    api_port: int

    @property
    def etcd(self) -> str:
        """URL of etcd, for the API server."""
        return f"http://{LOOPBACK}:{self.etcd_port}"

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{LOOPBACK}:{self.api_port}"

    @property
    def authority(self) -> Path:
        """The API server's self-signed certificate, which clients use as their certificate authority."""
        return self.home / "certificates" / "apiserver.crt"

    @property
    def signing_key(self) -> Path:
        """The key that signs and verifies service account tokens."""
        return self.home / "service-accounts.key"

    @property
    def tokens(self) -> Path:
        """The tokens of all users."""
        return self.home / "tokens.csv"

    @property
    def stages(self) -> Path:
        """The stages of kwok, which define the behaviour of the fake kubelets."""
        return self.home / "stages.yaml"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a user."""
        return self.home / f"{user}.kubeconfig"


def etcd(programs: Programs, layout: Layout) -> list[str]:
    """Command line of etcd.

    It listens on loopback only and without a password. Every user of this machine can read its content, so store no
    secrets in it.
    """
    peers = f"http://{LOOPBACK}:{layout.etcd_peer_port}"
    return [
        str(programs.etcd),
        f"--data-dir={layout.home / 'etcd'}",
        f"--listen-client-urls={layout.etcd}",
        f"--advertise-client-urls={layout.etcd}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",  # the data need not outlive the process
        "--log-level=warn",
    ]


def api_server(programs: Programs, layout: Layout) -> list[str]:
    """Command line of the API server, with RBAC and the default admission plugins.

    The plugins include service accounts, quotas and Pod Security.
    """
    return [
        str(programs.api_server),
        f"--etcd-servers={layout.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.api_port}",
        f"--cert-dir={layout.authority.parent}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=RBAC",
        "--anonymous-auth=false",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.signing_key}",
        f"--service-account-signing-key-file={layout.signing_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        # There is no network through which pods could reach the server.
        "--endpoint-reconciler-type=none",
        "--profiling=false",
    ]


def controller_manager(programs: Programs, layout: Layout) -> list[str]:
    """Command line of the controller manager, with all controllers except those that assign addresses."""
    return [
        str(programs.controller_manager),
        f"--kubeconfig={layout.kubeconfig('controller-manager')}",
        f"--service-account-private-key-file={layout.signing_key}",
        f"--root-ca-file={layout.authority}",
        "--use-service-account-credentials",
        "--controllers=*,-node-ipam-controller,-service-lb-controller",
        "--pvclaimbinder-sync-period=1s",  # by default a claim may wait 15 s for an available volume
        "--leader-elect=false",
        "--secure-port=0",
    ]


def scheduler(programs: Programs, layout: Layout) -> list[str]:
    """Command line of the scheduler, with its default plugins."""
    kubeconfig = layout.kubeconfig("scheduler")
    return [str(programs.scheduler), f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"]


def kwok(programs: Programs, layout: Layout) -> list[str]:
    """Command line of kwok, which simulates the kubelets of the nodes annotated as fake."""
    return [
        str(programs.kwok),
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        f"--config={layout.stages}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        "--cidr=10.0.0.0/16",
        "--node-ip=10.0.0.1",
    ]
