"""Digests of a log by block of offsets: equal digests mean equal batches. PURE.

A digest covers first offset, end offset, epoch and checksum of each batch. The digest of a block is the sum of a hash
of each batch, so partial results of several tasks can be added. Different blocks have the same digest with a
probability of 1 in 2^64. A table of batches has a row per batch, a table of blocks a row per block of BLOCK_OFFSETS in
which a batch begins.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]
BLOCK_OFFSETS = 1 << 16
"""Size of a block; limits the work for a block that differs, whose batches are compared one by one."""
BASE, END, EPOCH, CRC, POSITION, AFTER = BATCH_COLUMNS = range(6)
"""Columns of a batch: base offset, end offset, epoch, checksum, position in its file, end position."""
BLOCK, COUNT, DIGEST, FROM, TO, BEGIN, FINISH = BLOCK_COLUMNS = range(7)
"""Columns of a block: number, count of batches that begin in it, their digest, first and end offset, first and end position."""
NO_BATCHES: Table = np.empty((0, len(BATCH_COLUMNS)), np.int64)
NO_BLOCKS: Table = np.empty((0, len(BLOCK_COLUMNS)), np.int64)


def blocks_of(batches: Table) -> Table:
    """Return the blocks of a table of ordered batches."""
    if not len(batches):
        return NO_BLOCKS
    digests = np.zeros(len(batches), np.uint64)
    for column in (BASE, END, EPOCH, CRC):
        digests = _mixed(digests ^ batches[:, column].astype(np.uint64))
    each = np.empty((len(batches), len(BLOCK_COLUMNS)), np.int64)
    each[:, BLOCK] = batches[:, BASE] // BLOCK_OFFSETS
    each[:, COUNT] = 1
    each[:, DIGEST] = digests.view(np.int64)
    each[:, FROM], each[:, TO] = batches[:, BASE], batches[:, END]
    each[:, BEGIN], each[:, FINISH] = batches[:, POSITION], batches[:, AFTER]
    return joined([each])


def joined(tables: Sequence[Table]) -> Table:
    """Join parts of blocks, in order of their offsets, to one row per block."""
    every = np.concatenate([NO_BLOCKS, *tables])
    if not len(every):
        return every
    firsts = np.flatnonzero(np.diff(every[:, BLOCK], prepend=-1))
    lasts = np.append(firsts[1:], len(every)) - 1
    found = every[firsts]
    found[:, COUNT] = np.add.reduceat(every[:, COUNT], firsts)
    found[:, DIGEST] = np.add.reduceat(every[:, DIGEST], firsts)  # modulo 2^64
    found[:, TO], found[:, FINISH] = every[lasts, TO], every[lasts, FINISH]
    return found


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix the bits: the finalizer of splitmix64 (Steele, Lea and Flood, 2014)."""
    found = numbers + np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))
