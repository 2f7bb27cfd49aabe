"""Checks that this user may join the consumer group, and changes nothing.

The broker states the rights on a group only once the group exists. So this sends a heartbeat of a member that does not
exist, which is authorised like that of one that does, and then refused.
"""

from __future__ import annotations

import time

from kafka import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError, KafkaError, for_code
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.metadata import CoordinatorType

from glaim_stream.operate.check.findings import Finding, failed, ok
from glaim_stream.operate.check.rights import grant

_PATIENCE_S = 8.0  # a new cluster first creates the topic that holds the commits; one that cannot says so within 10 s
_PAUSE_S = 0.2
_NOBODY, _NO_GENERATION = "glaim-stream-check", 0


def group_finding(admin: KafkaAdminClient, name: str) -> Finding:
    """Whether this user may join a consumer group, which need not be there yet."""
    subject = f"consumer group {name}"
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            error: type[Exception] = admin._manager.run(_heartbeat, admin, name)
        except KafkaError as raised:
            error = type(raised)
        if issubclass(error, GroupAuthorizationFailedError):
            found = f"{error.__name__}; {grant('group', name, 'Read')}"
            return failed(subject, expected="this user to have READ", found=found)
        if not getattr(error, "retriable", False):
            return ok(subject, "this user may join it")
        if time.monotonic() > end_s:
            return failed(subject, expected="a coordinator", found=f"{error.__name__} for {_PATIENCE_S:.0f} s")
        time.sleep(_PAUSE_S)


async def _heartbeat(admin: KafkaAdminClient, name: str) -> type[Exception]:
    node_id = await admin._find_coordinator_id(name, CoordinatorType.GROUP)
    request = HeartbeatRequest(group_id=name, generation_id=_NO_GENERATION, member_id=_NOBODY, max_version=3)
    response = await admin._manager.send(request, node_id=node_id)
    found: type[Exception] = for_code(response.error_code)
    return found
