"""The calls that one event loop waits for."""

from __future__ import annotations

import asyncio
from typing import Any, Dict

from ._guira import Calls
from .exceptions import MemcacheUnexpectedCloseError


class PendingCalls:
    """The futures of the calls in progress. It has no reference to its loop, which Python could not free otherwise."""

    def __init__(self, calls: Calls, loop: asyncio.AbstractEventLoop) -> None:
        self.calls = calls
        self._waiting: Dict[int, asyncio.Future[Any]] = {}
        loop.add_reader(calls.fileno(), self._take)

    async def answer(self, number: int) -> Any:
        """Returns the result of a call. Cancelling the coroutine does not cancel the call."""
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
        """Fails all calls in progress. The thread of the loop must call it."""
        loop.remove_reader(self.calls.fileno())
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(MemcacheUnexpectedCloseError("the client was closed"))
