"""Calls from a thread to the event loop. If the loop has ended, the process is ending too, and the call is dropped."""

import asyncio
from collections.abc import Callable
from typing import TypeVarTuple, Unpack

_Arguments = TypeVarTuple("_Arguments")


def call_on_loop(
    loop: asyncio.AbstractEventLoop,
    act: Callable[[Unpack[_Arguments]], object],
    *arguments: *_Arguments,
) -> bool:
    """Have the loop call `act`. False: the loop is closed."""
    try:
        loop.call_soon_threadsafe(act, *arguments)
    except RuntimeError:
        return False
    return True
