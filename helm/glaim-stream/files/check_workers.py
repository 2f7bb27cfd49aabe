"""Are all workers ready? Asks each address behind a name for /health/ready; exit code 0, or 1 and a sentence for each.

    python check_workers.py HOST PORT COUNT

COUNT is the fewest workers that must answer. The name is a headless Service's: every worker has an address.
"""

import json
import socket
import sys
from urllib.error import HTTPError
from urllib.request import urlopen


def ready(address: str, port: int) -> "tuple[bool, str]":
    """Whether the worker at this address is, and a sentence."""
    host = f"[{address}]" if ":" in address else address
    try:
        with urlopen(f"http://{host}:{port}/health/ready", timeout=5) as answer:
            return True, f"{address} is ready: {answer.read().decode()}"
    except HTTPError as error:
        why = json.loads(error.read() or b"{}").get("why_not", error.reason)
        return False, f"{address} is not ready: {why}"
    except (OSError, ValueError) as error:
        return False, f"{address} did not answer: {error}"


def main(host: str, port: str, count: str) -> int:
    """Ask them all."""
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        print(f"{host} could not be looked up: {error}")
        return 1
    answers = [ready(address, int(port)) for address in sorted({str(entry[4][0]) for entry in found})]
    for _, sentence in answers:
        print(sentence)
    if len(answers) < int(count):
        print(f"expected {count} workers at least, found {len(answers)}")
        return 1
    return 0 if all(good for good, _ in answers) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
