"""A client of the API server with the operations that the tests need."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError, ResourceNotFoundError

from deploy.cluster.manifest import Object


class RequestRejected(Exception):
    """The API server rejected a request.

    Args:
        status: The HTTP status: 403 forbidden, 422 invalid, 429 not now.
        message: The server's error message.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Sends requests as the user of a kubeconfig, or as one whom that user impersonates."""

    def __init__(self, kubeconfig: Path, user: str = "") -> None:
        self._kubeconfig = kubeconfig
        self._client = config.new_client_from_config(str(kubeconfig))
        if user:
            self._client.set_default_header("Impersonate-User", user)
        # The discovery cache is kept beside the kubeconfig. By default the client names it after the server's address,
        # and another cluster may have used the same port before.
        self._cache = kubeconfig.with_suffix(".discovery")

    def impersonating(self, user: str) -> Api:
        """A client with the rights of another user."""
        return Api(self._kubeconfig, user)

    @cached_property
    def _dynamic(self) -> Any:
        return DynamicClient(self._client, cache_file=str(self._cache))

    def _resource(self, api_version: str, kind: str) -> Any:
        try:
            return self._dynamic.resources.get(api_version=api_version, kind=kind)
        except ResourceNotFoundError:
            self._dynamic.resources.invalidate_cache()  # the resource may have been defined since
            return self._dynamic.resources.get(api_version=api_version, kind=kind)

    def create(self, thing: Object, namespace: str | None = None, *, strict_dry_run: bool = False) -> Object:
        """Create an object, or with `strict_dry_run` only validate it and reject unknown and duplicate fields.

        Raises:
            RequestRejected: The server rejected the object.
        """
        query = [("dryRun", "All"), ("fieldValidation", "Strict")] if strict_dry_run else []
        resource = self._resource(thing["apiVersion"], thing["kind"])
        try:
            made: Object = resource.create(body=thing, namespace=namespace, query_params=query).to_dict()
        except DynamicApiError as error:
            raise RequestRejected(error.status, _message(error)) from error
        return made

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """The object, or None if it does not exist."""
        try:
            found: Object = self._resource(api_version, kind).get(name=name, namespace=namespace).to_dict()
        except NotFoundError:
            return None
        return found

    def listed(self, api_version: str, kind: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        """All objects of a kind that match a label selector, in one namespace or in all."""
        answer = self._resource(api_version, kind).get(namespace=namespace, label_selector=selector)
        items: list[Object] = answer.to_dict()["items"]
        return items

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> None:
        """Delete an object; does nothing if it does not exist."""
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
        """Merge changes into an object or into its status; None removes a field."""
        resource = self._resource(api_version, kind)
        part = resource.status if status else resource
        part.patch(body=changes, name=name, namespace=namespace, content_type="application/merge-patch+json")

    def evict(self, pod: str, namespace: str) -> None:
        """Evict a pod, as draining its node does.

        Raises:
            RequestRejected: With status 429 if a disruption budget forbids it.
        """
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=pod, namespace=namespace))
        try:
            client.CoreV1Api(self._client).create_namespaced_pod_eviction(pod, namespace, eviction)
        except ApiException as error:
            raise RequestRejected(error.status, str(error.body)) from error

    def version(self) -> str:
        """The version reported by the server, such as `v1.34.4`."""
        return str(client.VersionApi(self._client).get_code().git_version)

    def everything(self, namespace: str, selector: str) -> list[Object]:
        """All objects in the namespace that match the selector, of every kind that can be listed."""
        found = []
        for resource in self._dynamic.resources.search():
            listable = "list" in (getattr(resource, "verbs", None) or [])
            if listable and resource.namespaced and "/" not in resource.name and not resource.kind.endswith("List"):
                items = resource.get(namespace=namespace, label_selector=selector).to_dict()["items"]
                found += [{"kind": resource.kind} | item for item in items]
        return found


def _message(error: DynamicApiError) -> str:
    try:
        return str(error.summary())
    except (AttributeError, ValueError, TypeError):
        return str(error)
