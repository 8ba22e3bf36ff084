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
"""`kubectl apply` keeps a copy of the object in an annotation, and all annotations together may have 256 KiB."""
_DIGITS = 4
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
MAX_NAME_LENGTH = 200
"""Kubernetes' limit of 253, less room for a number and for a suffix of the caller."""
MAX_QUORUM_LENGTH = 40
"""Maximum length of a quorum's name, as the operator builds names of pods and volumes from it."""

Placed = tuple[str, int, tuple[int, ...]]
"""Topic, partition, and the new replicas."""


def check_name(name: str, max_length: int = MAX_NAME_LENGTH) -> None:
    """Raise ValueError if the name is not valid for a resource."""
    if not _NAME.fullmatch(name) or len(name) > max_length:
        raise ValueError(
            f"{name!r} is not a valid resource name: lower case letters, digits, '-' and '.', {max_length} at most"
        )


def documents(name: str, quorum: str, placed: Iterable[Placed]) -> Iterator[str]:
    """Yield one or several documents: `name`, or `name-0001` and so on."""
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
    """Return a YAML document with one line of JSON, which is also YAML, per partition."""
    head = (
        "apiVersion: metadataquorum.dev/v1beta1\n"
        "kind: PartitionReassignment\n"
        "metadata:\n"
        f"  name: {json.dumps(name)}\n"
        "spec:\n"
        f"  quorum: {json.dumps(quorum)}\n"
        "  partitions:\n"
    )
    return head + "".join(f"  - {line}\n" for line in lines)
