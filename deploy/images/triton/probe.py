#!/usr/bin/env python3
"""Is every model truly served? Asks each for an inference over HTTP; exit code 0, or 1 and a sentence.

    probe.py                    every model that the server calls ready
    probe.py plant-pump         these models, ready or not
    probe.py --timeout 2        seconds for each request

Triton's health endpoints stay 200 while the process that runs a model is dead, so a probe must ask what a client asks.
The window is of zeros with nothing observed: the least that can be sent, and what models most easily get wrong.

Nothing but Python's standard library is needed: this runs inside NVIDIA's image.
"""

import argparse
import json
import math
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ADMIN_HEADER = "glaim-admin"  # as deploy/images/triton/serve names it
ADMIN_FILE = "/tmp/glaim-admin"  # noqa: S108 - the container's own, written by serve, readable for its user alone


class NotServedError(Exception):
    """What is wrong, in a sentence."""


class Server:
    """A Triton server over HTTP. Every method raises `NotServedError` when it gets no good answer.

    Args:
        url: Such as http://localhost:8000.
        timeout_s: For each request.
        secret: What opens the listing of models, where that is closed.
    """

    def __init__(self, url: str, timeout_s: float, secret: str) -> None:
        self._url, self._timeout_s, self._secret = url.rstrip("/"), timeout_s, secret

    def ready_models(self) -> "list[str]":
        """The models with a version that the server calls ready."""
        listed = self._ask("/v2/repository/index", {"ready": True})
        return sorted({entry["name"] for entry in listed if entry.get("state", "READY") == "READY"})

    def infer(self, model: str) -> None:
        """Ask a model for one inference and look at each of its outputs."""
        described = self._ask(f"/v2/models/{model}")
        inputs = [
            {"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape, "data": _nothing(tensor, shape)}
            for tensor in described["inputs"]
            for shape in [[max(1, size) for size in tensor["shape"]]]  # -1: any size, the batch's too
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
                raise NotServedError(f"output {name}: expected finite numbers, found others")

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
            raise NotServedError(f"{self._url}{path}: no answer within {self._timeout_s:g} s: {error}") from error


def _nothing(tensor: "dict[str, Any]", shape: "list[int]") -> "list[Any]":
    empty: Any = {"BOOL": False, "BYTES": ""}.get(tensor["datatype"], 0)
    return [empty] * math.prod(shape)


def _secret() -> str:
    path = Path(os.environ.get("GLAIM_ADMIN_FILE", ADMIN_FILE))
    return path.read_text().strip() if path.is_file() else ""


def main() -> int:
    """Probe, and say what was found."""
    parser = argparse.ArgumentParser(description="Ask the models of a Triton server for an inference each.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: every model that the server calls ready")
    parser.add_argument("--url", default="http://localhost:8000", help="default: %(default)s")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds for each request (default: %(default)s)")
    given = parser.parse_args()
    server = Server(given.url, given.timeout, _secret())
    try:
        models = given.models or server.ready_models()
    except NotServedError as error:
        print(f"the models cannot be listed: {error}")
        return 1
    if not models:
        print("expected a model that is served, found none")
        return 1
    problems = []
    for model in models:
        try:
            server.infer(model)
        except NotServedError as error:
            problems.append(f"model {model}: {error}")
    print("; ".join(problems) or f"{len(models)} served: {', '.join(models)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
