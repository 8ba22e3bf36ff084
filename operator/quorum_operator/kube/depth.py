"""How deeply the documents of the API server may be nested.

The API server stores up to 10000 levels in fields without a schema, such as the affinity of a quorum, and lists them
together with the quorums of other users. With Python's own limit of 1000 calls, one such object would end the watches
of all quorums.
"""

import sys

MOST_LEVELS = 10_000
"""Limit of the API server's decoder."""
_CALLS = 3 * MOST_LEVELS + 1_000
"""Copying and comparing take up to two calls per level, and decoding takes one. Decoding 10000 levels takes less than
2 MB of the main thread's stack of 8 MB.
"""


def allow_all_depths() -> None:
    """Let this process decode, copy and compare every document that the API server accepts."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _CALLS))
