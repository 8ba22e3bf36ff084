"""Who waits for the next change of a replica's role, which includes every change of the leader that it knows."""

import asyncio


class RoleChanges:
    """All waiting callers of one replica."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def next(self) -> "asyncio.Future[None]":
        """Done with the next change. Cancel it to stop waiting."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def happened(self) -> None:
        """The role has changed."""
        for each in tuple(self._waiting):
            if not each.done():
                each.set_result(None)
