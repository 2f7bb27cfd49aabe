"""The API server, asked in the shapes that the tests need; objects are plain dictionaries, as in a manifest."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError, ResourceNotFoundError

Object = dict[str, Any]


class Refused(Exception):
    """The API server took it not; the message is what it said.

    Args:
        status: Of HTTP: 403 forbidden, 422 invalid, 429 not now.
        message: The server's sentence.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Requests as the user of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = config.new_client_from_config(str(kubeconfig))
        # What the server offers: kept beside the kubeconfig, for the client's own place is by address, and another
        # cluster may have had this port.
        self._cache = kubeconfig.with_suffix(".discovery")

    @cached_property
    def _dynamic(self) -> Any:
        return DynamicClient(self._client, cache_file=str(self._cache))

    def _resource(self, api_version: str, kind: str) -> Any:
        try:
            return self._dynamic.resources.get(api_version=api_version, kind=kind)
        except ResourceNotFoundError:
            self._dynamic.resources.invalidate_cache()  # defined since
            return self._dynamic.resources.get(api_version=api_version, kind=kind)

    def create(self, thing: Object, namespace: str | None = None, *, strict_dry_run: bool = False) -> Object:
        """Make an object; with `strict_dry_run` only have it checked, unknown and doubled fields refused.

        Raises:
            Refused: With the server's status and sentence.
        """
        query = [("dryRun", "All"), ("fieldValidation", "Strict")] if strict_dry_run else []
        resource = self._resource(thing["apiVersion"], thing["kind"])
        try:
            made: Object = resource.create(body=thing, namespace=namespace, query_params=query).to_dict()
        except DynamicApiError as error:
            raise Refused(error.status, _sentence(error)) from error
        return made

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """The object, or None where there is none."""
        try:
            found: Object = self._resource(api_version, kind).get(name=name, namespace=namespace).to_dict()
        except NotFoundError:
            return None
        return found

    def listed(self, api_version: str, kind: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        """All objects of a kind, of one namespace or of all, that a label selector chooses."""
        answer = self._resource(api_version, kind).get(namespace=namespace, label_selector=selector)
        items: list[Object] = answer.to_dict()["items"]
        return items

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> None:
        """Delete an object; nothing happens where there is none."""
        try:
            self._resource(api_version, kind).delete(name=name, namespace=namespace)
        except NotFoundError:
            return

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        changes: Object,
        namespace: str | None = None,
        *,
        status: bool = False,
    ) -> None:
        """Merge changes into an object, or into its status; None takes a field away."""
        resource = self._resource(api_version, kind)
        part = resource.status if status else resource
        part.patch(body=changes, name=name, namespace=namespace, content_type="application/merge-patch+json")

    def evict(self, pod: str, namespace: str) -> None:
        """Ask a pod to go, as a drain of its node does.

        Raises:
            Refused: With 429 where a disruption budget forbids it.
        """
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=pod, namespace=namespace))
        try:
            client.CoreV1Api(self._client).create_namespaced_pod_eviction(pod, namespace, eviction)
        except ApiException as error:
            raise Refused(error.status, str(error.body)) from error

    def version(self) -> str:
        """What the server says that it is, such as `v1.34.4`."""
        return str(client.VersionApi(self._client).get_code().git_version)

    def everything(self, namespace: str, selector: str) -> list[Object]:
        """Every object of the namespace that the selector chooses, of every kind that can be listed."""
        found = []
        for resource in self._dynamic.resources.search():
            listable = "list" in (getattr(resource, "verbs", None) or [])
            if listable and resource.namespaced and "/" not in resource.name and not resource.kind.endswith("List"):
                items = resource.get(namespace=namespace, label_selector=selector).to_dict()["items"]
                found += [{"kind": resource.kind} | item for item in items]
        return found


def _sentence(error: Any) -> str:
    try:
        return str(error.summary())
    except (AttributeError, ValueError, TypeError):
        return str(error)
