"""How each part of the control plane is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deploy.cluster.programs import Programs
from deploy.ports import LOOPBACK


@dataclass(frozen=True)
class Layout:
    """One cluster's folder and ports."""

    home: Path
    etcd_port: int
    etcd_peer_port: int
    api_port: int

    @property
    def etcd(self) -> str:
        """Where the API server finds etcd."""
        return f"http://{LOOPBACK}:{self.etcd_port}"

    @property
    def server(self) -> str:
        """Where everybody finds the API server."""
        return f"https://{LOOPBACK}:{self.api_port}"

    @property
    def authority(self) -> Path:
        """The certificate that the API server makes for itself: it signs it too, so clients trust this file."""
        return self.home / "certificates" / "apiserver.crt"

    @property
    def signing_key(self) -> Path:
        """What service account tokens are signed and checked with."""
        return self.home / "service-accounts.key"

    @property
    def tokens(self) -> Path:
        """Who may log in."""
        return self.home / "tokens.csv"

    @property
    def stages(self) -> Path:
        """What the fake kubelets do."""
        return self.home / "stages.yaml"

    def kubeconfig(self, user: str) -> Path:
        """How this user logs in."""
        return self.home / f"{user}.kubeconfig"


def etcd(programs: Programs, layout: Layout) -> list[str]:
    """Loopback alone and without a password: whoever is on this machine may read it, so put nothing secret in."""
    peers = f"http://{LOOPBACK}:{layout.etcd_peer_port}"
    return [
        str(programs.etcd),
        f"--data-dir={layout.home / 'etcd'}",
        f"--listen-client-urls={layout.etcd}",
        f"--advertise-client-urls={layout.etcd}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",  # it lives as long as its process
        "--log-level=warn",
    ]


def api_server(programs: Programs, layout: Layout) -> list[str]:
    """RBAC, and the default admission plugins: service accounts, quotas, Pod Security and the others."""
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
        # There is no network in which pods could reach it.
        "--endpoint-reconciler-type=none",
        "--profiling=false",
    ]


def controller_manager(programs: Programs, layout: Layout) -> list[str]:
    """Every controller but those that give out addresses."""
    return [
        str(programs.controller_manager),
        f"--kubeconfig={layout.kubeconfig('controller-manager')}",
        f"--service-account-private-key-file={layout.signing_key}",
        f"--root-ca-file={layout.authority}",
        "--use-service-account-credentials",
        "--controllers=*,-node-ipam-controller,-service-lb-controller",
        "--pvclaimbinder-sync-period=1s",  # 15 s: how long a claim may wait for a volume that is there
        "--leader-elect=false",
        "--secure-port=0",
    ]


def scheduler(programs: Programs, layout: Layout) -> list[str]:
    """With its default plugins."""
    kubeconfig = layout.kubeconfig("scheduler")
    return [str(programs.scheduler), f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"]


def kwok(programs: Programs, layout: Layout) -> list[str]:
    """The kubelets of the nodes that say that they are fake."""
    return [
        str(programs.kwok),
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        f"--config={layout.stages}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        "--cidr=10.0.0.0/16",
        "--node-ip=10.0.0.1",
    ]
