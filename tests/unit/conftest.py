"""Tests that are coroutines: each runs in an event loop of its own."""

import asyncio
import inspect

import pytest

from support import virtual_time


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """With the marker `virtual_time`, in a loop whose time advances only while it is idle."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    work = pyfuncitem.obj(**arguments)
    if pyfuncitem.get_closest_marker("virtual_time") is None:
        asyncio.run(work)
    else:
        virtual_time.finish(work)
    return True
