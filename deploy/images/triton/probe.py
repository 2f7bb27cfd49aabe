#!/usr/bin/env python3
"""Checks that every model is served by running an inference over HTTP; exits with 0, or with 1 and an error message.

    probe.py                    all models that the server lists as ready
    probe.py plant-pump         these models, ready or not
    probe.py --timeout 2        seconds per request
    probe.py --live             fails only if a restart may help: the server does not respond, or no ready model answers
    probe.py --patience 120     after all models have answered once, or 120 s after the start, a model that fails is out
                                of service and the others decide: one bad version must not take the good ones down

Triton's health endpoints return 200 even if the process of a model is dead, so the probe sends what a client sends. The
window contains zeros with nothing observed: the smallest request, and an edge case that models tend to get wrong.

This script uses only Python's standard library, because it runs inside NVIDIA's image.
"""

import argparse
import json
import math
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ADMIN_HEADER = "glaim-admin"  # the same name as in deploy/images/triton/serve
ADMIN_FILE = "/tmp/glaim-admin"  # noqa: S108 - inside the container, written by serve, readable only for its user


class NotServedError(Exception):
    """A request failed or returned an invalid answer."""


class Server:
    """An HTTP client of Triton. Every method raises `NotServedError` if it gets no valid answer.

    Args:
        url: Base URL, such as http://localhost:8000.
        timeout_s: Time limit of each request.
        secret: Gives access to the list of models where that is restricted.
    """

    def __init__(self, url: str, timeout_s: float, secret: str) -> None:
        self._url, self._timeout_s, self._secret = url.rstrip("/"), timeout_s, secret

    def ready_models(self) -> "list[str]":
        """The models with a version that the server lists as ready."""
        listed = self._ask("/v2/repository/index", {"ready": True})
        return sorted({entry["name"] for entry in listed if entry.get("state", "READY") == "READY"})

    def infer(self, model: str) -> None:
        """Run one inference and check all outputs of the model."""
        described = self._ask(f"/v2/models/{model}")
        inputs = [
            {"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape, "data": _zeros(tensor, shape)}
            for tensor in described["inputs"]
            for shape in [[max(1, size) for size in tensor["shape"]]]  # -1: any size, also for the batch
        ]
        answer = self._ask(f"/v2/models/{model}/infer", {"inputs": inputs})
        outputs = {tensor["name"]: tensor for tensor in answer.get("outputs", [])}
        for tensor in described["outputs"]:
            name = tensor["name"]
            found = outputs.get(name, {}).get("data") or []
            expected = math.prod(outputs.get(name, {}).get("shape", [1]))
            if len(found) != max(1, expected):
                raise NotServedError(f"output {name}: expected {max(1, expected)} numbers, found {len(found)}")
            if not all(math.isfinite(number) for number in found if isinstance(number, float)):
                raise NotServedError(f"output {name}: expected finite numbers, found NaN or infinity")

    def _ask(self, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the address is the operator's
            self._url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", ADMIN_HEADER: self._secret},
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise NotServedError(f"{path}: status {error.code}, {error.read(500).decode(errors='replace')}") from error
        except (OSError, ValueError) as error:
            raise NotServedError(f"{self._url}{path}: no response within {self._timeout_s:g} s: {error}") from error


def _zeros(tensor: "dict[str, Any]", shape: "list[int]") -> "list[object]":
    zero: object = {"BOOL": False, "BYTES": ""}.get(tensor["datatype"], 0)
    return [zero] * math.prod(shape)


def _secret() -> str:
    path = Path(os.environ.get("GLAIM_ADMIN_FILE", ADMIN_FILE))
    return path.read_text().strip() if path.is_file() else ""


def _patience_is_over(patience_s: float, *, all_answer: bool) -> bool:
    """Whether a model that fails is out of service; remembers, by the server's secret, that all models have answered.

    The secret is new at each start of the server, and its file is as old as the server.
    """
    file = Path(os.environ.get("GLAIM_ADMIN_FILE", ADMIN_FILE))
    if not file.is_file():
        return False
    answered = file.with_name(file.name + "-answered")
    secret = file.read_text()
    if all_answer:
        answered.write_text(secret)
        return True
    if answered.is_file() and answered.read_text() == secret:
        return True
    return time.time() - file.stat().st_mtime > patience_s


def main() -> int:
    """Probe the models and print the result."""
    parser = argparse.ArgumentParser(description="Run an inference with each model of a Triton server.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: all models that the server lists as ready")
    parser.add_argument("--url", default="http://localhost:8000", help="default: %(default)s")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds per request (default: %(default)s)")
    parser.add_argument("--live", action="store_true", help="fail only if a restart of the server may help")
    parser.add_argument("--patience", type=float, help="seconds after which a failing model is out of service")
    given = parser.parse_args()
    server = Server(given.url, given.timeout, _secret())
    try:
        models = given.models or server.ready_models()
    except NotServedError as error:
        print(f"the models cannot be listed: {error}")
        return 1
    if not models and given.live:  # none could be loaded: a restart would load the same files
        print("the server responds, and has no ready model")
        return 0
    if not models:
        print("expected at least one ready model, found none")
        return 1
    problems = []
    for model in models:
        try:
            server.infer(model)
        except NotServedError as error:
            problems.append(f"model {model}: {error}")
    print("; ".join(problems) or f"{len(models)} served: {', '.join(models)}")
    over = given.patience is not None and _patience_is_over(given.patience, all_answer=not problems)
    some_suffice = given.live or over
    return 1 if len(problems) == len(models) or (problems and not some_suffice) else 0


if __name__ == "__main__":
    sys.exit(main())
