"""One local cluster: its processes and its initial objects."""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

from deploy.cache import Report
from deploy.cluster import crds, parts
from deploy.cluster.api import Api
from deploy.cluster.keys import USERS, write_kubeconfig, write_signing_key, write_tokens
from deploy.cluster.manifest import Object
from deploy.cluster.nodes import nodes, storage
from deploy.cluster.parts import Layout
from deploy.cluster.programs import control_plane
from deploy.cluster.stages import write_stages
from deploy.errors import ServerFailed
from deploy.ports import choose_port, claim_port
from deploy.process import ServerProcess
from deploy.runner import LocalServer

_START_S = 90.0  # usually 3 s


class LocalCluster(LocalServer):
    """A control plane with six fake nodes and some volumes; everything ends with this process.

    Args:
        port: Port of the API server. None: a free port.
        custom_resources: Install the custom resources of the Prometheus operator and of KEDA at the start.
        report: Receives the progress lines of a build.
    """

    def __init__(self, port: int | None = None, *, custom_resources: bool = True, report: Report = print) -> None:
        super().__init__()
        self._requested_port = port
        self._custom_resources = custom_resources
        self._report = report
        self._processes: list[ServerProcess] = []
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """The cluster's files and ports.

        Raises:
            ServerFailed: The cluster has not been started.
        """
        if self._layout is None:
            raise ServerFailed("the local cluster has not been started")
        return self._layout

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for helm and kubectl."""
        return self.layout.kubeconfig("admin")

    @cached_property
    def api(self) -> Api:
        """A client of the API server with the administrator's credentials."""
        return Api(self.kubeconfig)

    @property
    def running(self) -> bool:
        """True while all processes exist."""
        return bool(self._processes) and all(process.running for process in self._processes)

    def start(self) -> Self:
        """Start all processes and wait until the nodes are Ready and pods can be created.

        Raises:
            ClusterUnavailable: This machine cannot build the programs.
            FetchError: A build failed.
            ServerFailed: A process did not start; the message ends with the tail of its log.
        """
        programs = control_plane(self._report)
        home = Path(tempfile.mkdtemp(prefix="glaim-cluster-"))
        port = claim_port(self._requested_port, "the API server", "--port")
        self._layout = layout = Layout(home, choose_port(), choose_port(), port)
        self._write_files(layout)
        etcd = self._run("etcd", parts.etcd(programs, layout))
        etcd.wait_ready(lambda: _missing(f"{layout.etcd}/health", None, {}), _START_S)
        api_server = self._run("kube-apiserver", parts.api_server(programs, layout))
        headers = {"Authorization": f"Bearer {self._tokens['admin']}"}
        api_server.wait_ready(lambda: _missing(f"{layout.server}/readyz", layout.authority, headers), _START_S)
        self._run("kube-controller-manager", parts.controller_manager(programs, layout))
        self._run("kube-scheduler", parts.scheduler(programs, layout))
        kwok = self._run("kwok", parts.kwok(programs, layout))
        self._create_initial_objects()
        kwok.wait_ready(lambda: _unready(self.api), _START_S)
        return self

    def stop(self) -> None:
        """Stop all processes, the newest first, and delete their files. Idempotent."""
        while self._processes:
            self._processes.pop().stop(5.0)
        if self._layout is not None:
            shutil.rmtree(self._layout.home, ignore_errors=True)
        self._layout = None
        vars(self).pop("api", None)  # the next start uses other ports and tokens

    def define(self, definitions: Sequence[Object]) -> None:
        """Create custom resource definitions and wait until they are served.

        Raises:
            ServerFailed: A definition is not served after 30 s.
        """
        api = self.api
        for definition in definitions:
            api.create(definition)
        names = [definition["metadata"]["name"] for definition in definitions]
        _wait_until(lambda: _unestablished(api, names), 30.0)

    def _write_files(self, layout: Layout) -> None:
        layout.authority.parent.mkdir()
        write_signing_key(layout.signing_key)
        self._tokens = write_tokens(layout.tokens)
        for user in USERS:
            write_kubeconfig(layout.kubeconfig(user), layout.server, layout.authority, user, self._tokens[user])
        write_stages(layout.stages)

    def _run(self, name: str, command: list[str]) -> ServerProcess:
        log = self.layout.home / f"{name}.log"
        process = ServerProcess(name, command, environment=os.environ, log=log, orphan_dirs=[self.layout.home])
        process.start()
        self._processes.append(process)
        return process

    def _create_initial_objects(self) -> None:
        for thing in [*nodes(), *storage()]:
            self.api.create(thing)
        if self._custom_resources:
            self.define(crds.definitions())


def _missing(address: str, authority: Path | None, headers: dict[str, str]) -> str | None:
    """None once the address answers with status 200, otherwise a description of the problem."""
    try:
        context = ssl.create_default_context(cafile=authority) if authority is not None else None
        request = urllib.request.Request(address, headers=headers)  # noqa: S310, local addresses
        with urllib.request.urlopen(request, timeout=5, context=context):  # noqa: S310
            return None
    except (urllib.error.URLError, OSError) as error:
        return f"{address}: {error}"


def _unready(api: Api) -> str | None:
    """None once every node is Ready and the default service account exists, otherwise a description of the problem."""
    for node in api.listed("v1", "Node"):
        conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions") or []}
        taints = {taint["key"] for taint in node["spec"].get("taints") or []}
        if conditions.get("Ready") != "True" or "node.kubernetes.io/not-ready" in taints:
            return f"node {node['metadata']['name']} is not Ready"
    if not api.listed("v1", "ServiceAccount", "default"):
        return "the namespace default has no service account"
    return None


def _unestablished(api: Api, names: Sequence[str]) -> str | None:
    for definition in api.listed("apiextensions.k8s.io/v1", "CustomResourceDefinition"):
        conditions = definition.get("status", {}).get("conditions") or []
        established = any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
        if definition["metadata"]["name"] in names and not established:
            return f"{definition['metadata']['name']} is not served"
    return None


def _wait_until(missing: Callable[[], str | None], deadline_s: float) -> None:
    give_up = time.monotonic() + deadline_s
    while (found := missing()) is not None:
        if time.monotonic() > give_up:
            raise ServerFailed(f"after {deadline_s:.0f} s: {found}")
        time.sleep(0.1)
