"""Check that all workers are ready, by the page /health/ready of every address behind a host name.

    python check_workers.py HOST PORT COUNT [https]

HOST is the name of a headless Service, which resolves to the address of each worker. COUNT is the minimum number of
workers. Prints one line per worker. The exit code is 0 if at least COUNT workers were found and all of them are ready,
else 1.
"""

import json
import socket
import ssl
import sys
from urllib.error import HTTPError
from urllib.request import urlopen


def ready(address: str, port: int, scheme: str) -> "tuple[bool, str]":
    """Return whether the worker at this address is ready, and a message that describes the result."""
    host = f"[{address}]" if ":" in address else address
    try:
        url = f"{scheme}://{host}:{port}/health/ready"
        with urlopen(url, timeout=5, context=unverified()) as response:  # noqa: S310, the scheme is the chart's
            return True, f"{address} is ready: {response.read().decode()}"
    except HTTPError as error:
        reason = json.loads(error.read() or b"{}").get("why_not", error.reason)
        return False, f"{address} is not ready: {reason}"
    except (OSError, ValueError) as error:
        return False, f"{address} did not respond: {error}"


def unverified() -> ssl.SSLContext:
    """A context that checks no certificate, like the kubelet's probes: it tests readiness, and sends nothing secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def main(host: str, port: str, count: str, scheme: str = "http") -> int:
    """Check every worker, print the results and return the exit code."""
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        print(f"cannot resolve {host}: {error}")
        return 1
    results = [ready(address, int(port), scheme) for address in sorted({str(entry[4][0]) for entry in found})]
    for _, message in results:
        print(message)
    if len(results) < int(count):
        print(f"expected at least {count} workers, found {len(results)}")
        return 1
    return 0 if all(is_ready for is_ready, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
