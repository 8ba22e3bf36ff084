"""Timeouts of a benchmark's waits, and their error messages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """Raise TimeoutError with a description of the awaited condition."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TimeoutError(f"{what}: not within {seconds:.0f} s") from None
