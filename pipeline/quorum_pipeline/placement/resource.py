"""A plan as PartitionReassignments for `kubectl apply`. PURE.

Owns the YAML documents, split if they would become too large, ordered by name. The operator defines their meaning and
maximum size; a test checks this against its model.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

MAX_PARTITIONS = 1000
MAX_BYTES = 200_000
"""`kubectl apply` keeps a copy of the object in an annotation, and those may have 256 KiB together."""
_DIGITS = 4
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
MAX_NAME_LENGTH = 200
"""253, with room for a number and for what the caller adds."""
MAX_QUORUM_LENGTH = 40
"""The operator builds names of pods and volumes from it."""

Placed = tuple[str, int, tuple[int, ...]]
"""Topic, partition, the replicas that it shall have."""


def check_name(name: str, max_length: int = MAX_NAME_LENGTH) -> None:
    """Raises ValueError for what is no name of a resource."""
    if not _NAME.fullmatch(name) or len(name) > max_length:
        raise ValueError(
            f"{name!r} is not a valid resource name: lower case letters, digits, '-' and '.', {max_length} at most"
        )


def documents(name: str, quorum: str, placed: Iterable[Placed]) -> Iterator[str]:
    """One or several: `name`, or `name-0001` and so on."""
    pages = _pages(placed)
    first = list(islice(pages, 2))
    if len(first) == 1:
        yield _document(name, quorum, *first)
        return
    for number, page in enumerate(chain(first, pages), 1):
        yield _document(f"{name}-{number:0{_DIGITS}}", quorum, page)


def _pages(placed: Iterable[Placed]) -> Iterator[list[str]]:
    page: list[str] = []
    size_bytes = 0
    for topic, partition, replicas in placed:
        entry = {"topic": topic, "partition": partition, "replicas": list(replicas)}
        line = json.dumps(entry, separators=(",", ":"))
        if page and (len(page) == MAX_PARTITIONS or size_bytes + len(line) > MAX_BYTES):
            yield page
            page, size_bytes = [], 0
        page.append(line)
        size_bytes += len(line) + 1
    if page:
        yield page


def _document(name: str, quorum: str, lines: list[str]) -> str:
    """JSON is YAML, too: a partition a line."""
    head = (
        "apiVersion: metadataquorum.dev/v1alpha1\n"
        "kind: PartitionReassignment\n"
        "metadata:\n"
        f"  name: {json.dumps(name)}\n"
        "spec:\n"
        f"  quorum: {json.dumps(quorum)}\n"
        "  partitions:\n"
    )
    return head + "".join(f"  - {line}\n" for line in lines)
