"""Commands that grant a right in Kafka, for findings of a missing right."""

from __future__ import annotations


def grant(flag: str, name: str, *operations: str, prefixed: bool = False) -> str:
    """The command that allows operations on a resource.

    Args:
        flag: the kind of resource: topic, group or transactional-id.
        name: name of the resource.
        operations: operations as kafka-acls.sh names them, such as Write.
        prefixed: True if the name is the beginning of several names.
    """
    allowed = " ".join(f"--operation {operation}" for operation in operations)
    pattern = " --resource-pattern-type prefixed" if prefixed else ""
    return f"kafka-acls.sh --add {allowed} --{flag} '{name}'{pattern} --allow-principal User:NAME"
