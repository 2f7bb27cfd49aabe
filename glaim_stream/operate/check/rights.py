"""Commands that grant a right in Kafka, for the findings that miss one."""

from __future__ import annotations


def grant(flag: str, name: str, *operations: str, prefixed: bool = False) -> str:
    """The command that allows operations on a resource.

    Args:
        flag: the kind of resource: topic, group or transactional-id.
        name: of the resource.
        operations: as kafka-acls.sh names them, such as Write.
        prefixed: the name is the beginning of several names.
    """
    allowed = " ".join(f"--operation {operation}" for operation in operations)
    pattern = " --resource-pattern-type prefixed" if prefixed else ""
    return f"kafka-acls.sh --add {allowed} --{flag} '{name}'{pattern} --allow-principal User:NAME"
