"""The name of a resource in any namespace."""

from typing import NamedTuple


class NamespacedName(NamedTuple):
    """Namespace and name of a resource of a known kind."""

    namespace: str
    name: str
