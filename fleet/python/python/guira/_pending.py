"""The calls that one event loop waits for."""

from __future__ import annotations

import asyncio
from typing import Any, Dict

from ._guira import Calls
from .exceptions import MemcacheUnexpectedCloseError


class PendingCalls:
    """Which futures wait for which calls. It does not hold its loop, which would never be freed then."""

    def __init__(self, calls: Calls, loop: asyncio.AbstractEventLoop) -> None:
        self.calls = calls
        self._waiting: Dict[int, asyncio.Future[Any]] = {}
        loop.add_reader(calls.fileno(), self._take)

    async def answer(self, number: int) -> Any:
        """What comes of a call. If nobody waits for it any more, it goes on all the same."""
        self._waiting[number] = future = asyncio.get_running_loop().create_future()
        try:
            return await future
        finally:
            if self._waiting.pop(number, None) is not None:
                self.calls.forget(number)

    def _take(self) -> None:
        for number, answer, error in self.calls.take():
            future = self._waiting.pop(number, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has nobody wait any more. In the thread of the loop."""
        loop.remove_reader(self.calls.fileno())
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(MemcacheUnexpectedCloseError("the client was closed"))
