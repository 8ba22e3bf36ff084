"""Isolation levels of Fetch and ListOffsets. Source: KIP-98."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def is_isolation_level(number: int) -> bool:
    """Whether the level exists. Who asks for another one must not get uncommitted records; a stock broker does not expect it, either."""
    return number in (READ_UNCOMMITTED, READ_COMMITTED)
