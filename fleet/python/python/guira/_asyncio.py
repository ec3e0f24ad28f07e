"""The client for asyncio."""

from __future__ import annotations

import asyncio
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Type, TypeVar, Union

from . import _codec as codec
from . import _guira
from ._codec import Codec, Key, Serde
from ._pending import PendingCalls
from ._setup import Server, setup, tell_of_forks
from .exceptions import MemcacheClientError

K = TypeVar("K", str, bytes)


class AsyncClient:
    """Many servers, each of which has some of the keys, with the calls of :class:`guira.Client` as coroutines.

    A thread without Python does the I/O, over one connection to each server. A call that nobody waits for any more goes on. It can be made before
    there is a loop, and used from several; names of servers are looked up when it is made.
    """

    def __init__(
        self,
        server: Union[Server, Iterable[Server], None] = None,
        *,
        config: Union[str, Mapping[str, Any], None] = None,
        serde: Optional[Serde] = None,
        serializer: Optional[Callable[[Any, Any], Tuple[Any, int]]] = None,
        deserializer: Optional[Callable[[Any, bytes, int], Any]] = None,
        timeout: float = 1.0,
        ignore_exc: bool = False,
        key_prefix: Key = b"",
        allow_unicode_keys: bool = False,
        encoding: str = "ascii",
        udp_gets: bool = False,
        compress_from: Optional[int] = None,
        ca_file: Optional[str] = None,
        verify: bool = True,
    ) -> None:
        """As :class:`guira.Client`."""
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, PendingCalls] = weakref.WeakKeyDictionary()
        self._client: Optional[_guira.AsyncClient] = None
        self._setup = setup(server, config, timeout, udp_gets, compress_from, ca_file, verify)
        self._codec = Codec(
            serde, serializer, deserializer, key_prefix, allow_unicode_keys, encoding, ignore_exc
        )
        self._client = self._setup.async_client()
        tell_of_forks(self)

    def _after_fork(self) -> None:
        self._client = None
        self._by_loop = weakref.WeakKeyDictionary()

    def __del__(self) -> None:
        # Nothing to leave if it was never made.
        if hasattr(self, "_by_loop"):
            self._leave()

    def _open(self) -> _guira.AsyncClient:
        client = self._client
        if client is None:
            client = self._client = self._setup.async_client()
        return client

    def _pending(self) -> PendingCalls:
        loop = asyncio.get_running_loop()
        pending = self._by_loop.get(loop)
        if pending is None:
            # Loops of other threads may come meanwhile.
            for other in [ref() for ref in self._by_loop.keyrefs()]:
                if other is not None and other.is_closed():
                    self._by_loop.pop(other, None)
            pending = self._by_loop[loop] = PendingCalls(self._open().calls(), loop)
        return pending

    def _leave(self) -> None:
        """Takes its descriptors from all loops, each in its thread."""
        by_loop, self._by_loop = self._by_loop, weakref.WeakKeyDictionary()
        for loop, pending in list(by_loop.items()):
            try:
                loop.call_soon_threadsafe(pending.close, loop)
            except RuntimeError:
                # It is closed, and watches nothing any more.
                pass

    async def close(self) -> None:
        """Closes all connections. Calls that are under way fail. Another call opens new ones."""
        self._leave()
        self._client = None
        # The loop has this one's descriptor no more when it comes back.
        await asyncio.sleep(0)

    quit = close
    disconnect_all = close

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def get(self, key: Key, default: Any = None) -> Any:
        """As :meth:`guira.Client.get`."""
        name = self._codec.key(key)
        try:
            pending = self._pending()
            item = await pending.answer(pending.calls.get(name))
            return default if item is None else self._codec.value(key, item)
        except Exception as error:
            return self._codec.failed_get(error, default)

    async def gets(self, key: Key, default: Any = None, cas_default: Any = None) -> Tuple[Any, Any]:
        """As :meth:`guira.Client.gets`."""
        name = self._codec.key(key)
        try:
            pending = self._pending()
            item = await pending.answer(pending.calls.gets(name))
            return (default, cas_default) if item is None else self._codec.value_and_cas(key, item)
        except Exception as error:
            missing: Tuple[Any, Any] = self._codec.failed_get(error, (default, cas_default))
            return missing

    async def gat(self, key: Key, expire: int = 0, default: Any = None) -> Any:
        """As :meth:`guira.Client.gat`."""
        name, expiry = self._codec.key(key), codec.expiry(expire)
        try:
            pending = self._pending()
            item = await pending.answer(pending.calls.gat(name, expiry))
            return default if item is None else self._codec.value(key, item)
        except Exception as error:
            return self._codec.failed_get(error, default)

    async def get_many(self, keys: Iterable[K]) -> Dict[K, Any]:
        """As :meth:`guira.Client.get_many`."""
        keys, pending = list(keys), self._pending()
        items = await pending.answer(pending.calls.get_many([self._codec.key(key) for key in keys]))
        return self._codec.values(keys, items, self._codec.value)

    get_multi = get_many

    async def gets_many(self, keys: Iterable[K]) -> Dict[K, Tuple[Any, int]]:
        """As :meth:`guira.Client.gets_many`."""
        keys, pending = list(keys), self._pending()
        items = await pending.answer(pending.calls.gets_many([self._codec.key(key) for key in keys]))
        return self._codec.values(keys, items, self._codec.value_and_cas)

    async def set(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """As :meth:`guira.Client.set`."""
        row, pending = self._codec.row(key, value, expire, flags), self._pending()
        return bool(await pending.answer(pending.calls.set(*row)))

    async def set_many(
        self,
        values: Mapping[K, Any],
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> List[K]:
        """As :meth:`guira.Client.set_many`."""
        rows = [self._codec.row(key, value, expire, flags) for key, value in values.items()]
        keys, pending = list(values), self._pending()
        return codec.not_stored(keys, await pending.answer(pending.calls.set_many(rows)))

    set_multi = set_many

    async def add(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """As :meth:`guira.Client.add`."""
        row, pending = self._codec.row(key, value, expire, flags), self._pending()
        return bool(await pending.answer(pending.calls.add(*row)))

    async def replace(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """As :meth:`guira.Client.replace`."""
        row, pending = self._codec.row(key, value, expire, flags), self._pending()
        return bool(await pending.answer(pending.calls.replace(*row)))

    async def cas(
        self,
        key: Key,
        value: Any,
        cas: Union[int, str, bytes],
        expire: int = 0,
        noreply: Optional[bool] = False,
        flags: Optional[int] = None,
    ) -> Optional[bool]:
        """As :meth:`guira.Client.cas`."""
        row, pending = self._codec.row(key, value, expire, flags), self._pending()
        stored: Optional[bool] = await pending.answer(pending.calls.cas(*row, codec.unique(cas)))
        return stored

    async def append(self, key: Key, value: Any, noreply: Optional[bool] = None) -> bool:
        """As :meth:`guira.Client.append`."""
        name, more, pending = self._codec.key(key), self._codec.more(key, value), self._pending()
        return bool(await pending.answer(pending.calls.append(name, more)))

    async def prepend(self, key: Key, value: Any, noreply: Optional[bool] = None) -> bool:
        """As :meth:`guira.Client.prepend`."""
        name, more, pending = self._codec.key(key), self._codec.more(key, value), self._pending()
        return bool(await pending.answer(pending.calls.prepend(name, more)))

    async def touch(self, key: Key, expire: int = 0, noreply: Optional[bool] = None) -> bool:
        """As :meth:`guira.Client.touch`."""
        name, expiry, pending = self._codec.key(key), codec.expiry(expire), self._pending()
        return bool(await pending.answer(pending.calls.touch(name, expiry)))

    async def delete(self, key: Key, noreply: Optional[bool] = None) -> bool:
        """As :meth:`guira.Client.delete`."""
        name, pending = self._codec.key(key), self._pending()
        return bool(await pending.answer(pending.calls.delete(name)))

    async def delete_many(self, keys: Iterable[Key], noreply: Optional[bool] = None) -> bool:
        """As :meth:`guira.Client.delete_many`."""
        keys, pending = list(keys), self._pending()
        names = [self._codec.key(key) for key in keys]
        return codec.all_deleted(keys, await pending.answer(pending.calls.delete_many(names)))

    delete_multi = delete_many

    async def incr(self, key: Key, value: int, noreply: Optional[bool] = False) -> Optional[int]:
        """As :meth:`guira.Client.incr`."""
        name, by, pending = self._codec.key(key), codec.amount(value), self._pending()
        number: Optional[int] = await pending.answer(pending.calls.incr(name, by))
        return number

    async def decr(self, key: Key, value: int, noreply: Optional[bool] = False) -> Optional[int]:
        """As :meth:`guira.Client.decr`."""
        name, by, pending = self._codec.key(key), codec.amount(value), self._pending()
        number: Optional[int] = await pending.answer(pending.calls.decr(name, by))
        return number

    async def flush_all(self, delay: int = 0, noreply: Optional[bool] = None) -> bool:
        """As :meth:`guira.Client.flush_all`."""
        codec.no_delay(delay)
        pending = self._pending()
        await pending.answer(pending.calls.flush_all())
        return True

    async def version(self) -> bytes:
        """As :meth:`guira.Client.version`."""
        versions = list((await self.versions()).values())
        if len(versions) != 1:
            raise MemcacheClientError("there are several servers: ask for their versions")
        return versions[0].encode()

    async def versions(self) -> Dict[str, str]:
        """As :meth:`guira.Client.versions`. A thread of the loop's executor asks, over connections of its own."""
        answers = await asyncio.get_running_loop().run_in_executor(
            None, lambda: self._setup.client().versions()
        )
        return codec.of_servers(answers)

    async def stats(self, *args: str) -> Dict[str, Dict[str, str]]:
        """As :meth:`guira.Client.stats`. A thread of the loop's executor asks, over connections of its own."""
        answers = await asyncio.get_running_loop().run_in_executor(
            None, lambda: self._setup.client().stats(" ".join(args))
        )
        return {server: dict(stats) for server, stats in codec.of_servers(answers).items()}

    def counters(self) -> Dict[str, int]:
        """As :meth:`guira.Client.counters`."""
        return dict(self._open().counters())
