"""The client for asyncio."""

from __future__ import annotations

import asyncio
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Tuple, Type, Union, overload

from . import _codec as codec
from . import _guira
from ._codec import Codec
from ._pending import PendingCalls
from ._refused import refuse
from ._setup import all_named, described, reset_in_children, setup
from ._typing import C, D, Deserializer, K, Key, M, Options, Serde, Serializer, Server, Typed, V
from .exceptions import MemcacheError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncClient(Typed[M]):
    """A client of many servers, with the methods of :class:`guira.Client` as coroutines.

    A thread outside Python does the I/O, over one connection to each server. Cancelling a coroutine does not cancel its request. A program can create
    the client before it has a loop, and use it from several loops. The constructor looks up the names of servers.
    """

    @overload
    def __init__(
        self: AsyncClient[Optional[bytes]],
        server: Union[Server, Iterable[Server], None] = None,
        *,
        serde: None = None,
        serializer: Optional[Serializer] = None,
        deserializer: None = None,
        **options: Unpack[Options],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncClient[Any],
        server: Union[Server, Iterable[Server], None] = None,
        *,
        serde: Optional[Serde] = None,
        serializer: Optional[Serializer] = None,
        deserializer: Optional[Deserializer] = None,
        **options: Unpack[Options],
    ) -> None: ...

    def __init__(
        self,
        server: Union[Server, Iterable[Server], None] = None,
        *,
        config: Union[str, Mapping[str, Any], None] = None,
        serde: Optional[Serde] = None,
        serializer: Optional[Serializer] = None,
        deserializer: Optional[Deserializer] = None,
        timeout: float = 1.0,
        ignore_exc: bool = False,
        key_prefix: Key = b"",
        allow_unicode_keys: bool = False,
        encoding: str = "ascii",
        udp_gets: bool = False,
        compress_from: Optional[int] = None,
        ca_file: Optional[str] = None,
        verify: bool = True,
        **refused: Any,
    ) -> None:
        """Takes the arguments of :class:`guira.Client`, except ``max_pool_size``."""
        refuse(type(self).__name__, refused)
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, PendingCalls] = weakref.WeakKeyDictionary()
        self._client: Optional[_guira.AsyncClient] = None
        self._servers, self._timeout = all_named(server), timeout
        self._setup = setup(self._servers, config, timeout, udp_gets, compress_from, ca_file, verify)
        self._codec = Codec(
            serde, serializer, deserializer, key_prefix, allow_unicode_keys, encoding, ignore_exc
        )
        self._client = self._setup.async_client()
        reset_in_children(self)

    def __repr__(self) -> str:
        return described(self, self._servers, self._timeout)

    def _after_fork(self) -> None:
        self._client = None
        self._by_loop = weakref.WeakKeyDictionary()

    def __del__(self) -> None:
        # A constructor that raised has left nothing to close.
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
            # Loops of other threads may add themselves in between.
            for other in [ref() for ref in self._by_loop.keyrefs()]:
                if other is not None and other.is_closed():
                    self._by_loop.pop(other, None)
            pending = self._by_loop[loop] = PendingCalls(self._open().calls(), loop)
        return pending

    def _leave(self) -> None:
        """Removes the descriptors of the client from all loops, each in the thread of the loop."""
        by_loop, self._by_loop = self._by_loop, weakref.WeakKeyDictionary()
        for loop, pending in list(by_loop.items()):
            try:
                loop.call_soon_threadsafe(pending.close, loop)
            except RuntimeError:
                # A closed loop watches no descriptor.
                pass

    async def close(self) -> None:
        """Closes all connections and fails the calls in progress. The next call opens new connections."""
        self._leave()
        self._client = None
        # The loop removes the descriptor of the client before it resumes this coroutine.
        await asyncio.sleep(0)

    quit = close
    disconnect_all = close

    async def __aenter__(self) -> AsyncClient[M]:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    @overload
    async def get(self, key: Key, default: None = None) -> M: ...

    @overload
    async def get(self: AsyncClient[Optional[V]], key: Key, default: D) -> Union[V, D]: ...

    async def get(self, key: Key, default: Any = None) -> Any:
        """Does the same as :meth:`guira.Client.get`."""
        try:
            pending = self._pending()
            item = await pending.answer(pending.calls.get(self._codec.key(key)))
            return default if item is None else self._codec.value(key, item)
        except Exception as error:
            return self._codec.failed_get(error, "get", key, default)

    @overload
    async def gets(self, key: Key, default: None = None, cas_default: None = None) -> Tuple[M, Optional[int]]: ...

    @overload
    async def gets(self: AsyncClient[Optional[V]], key: Key, default: D, cas_default: None = None) -> Tuple[Union[V, D], Optional[int]]: ...

    @overload
    async def gets(self: AsyncClient[Optional[V]], key: Key, default: D, cas_default: C) -> Tuple[Union[V, D], Union[int, C]]: ...

    @overload
    async def gets(self, key: Key, *, cas_default: C) -> Tuple[M, Union[int, C]]: ...

    async def gets(self, key: Key, default: Any = None, cas_default: Any = None) -> Any:
        """Does the same as :meth:`guira.Client.gets`."""
        try:
            pending = self._pending()
            item = await pending.answer(pending.calls.gets(self._codec.key(key)))
            return (default, cas_default) if item is None else self._codec.value_and_cas(key, item)
        except Exception as error:
            return self._codec.failed_get(error, "gets", key, (default, cas_default))

    @overload
    async def gat(self, key: Key, expire: int = 0, default: None = None) -> M: ...

    @overload
    async def gat(self: AsyncClient[Optional[V]], key: Key, expire: int, default: D) -> Union[V, D]: ...

    @overload
    async def gat(self: AsyncClient[Optional[V]], key: Key, expire: int = 0, *, default: D) -> Union[V, D]: ...

    async def gat(self, key: Key, expire: int = 0, default: Any = None) -> Any:
        """Does the same as :meth:`guira.Client.gat`."""
        try:
            pending = self._pending()
            item = await pending.answer(pending.calls.gat(self._codec.key(key), codec.expiry(expire)))
            return default if item is None else self._codec.value(key, item)
        except Exception as error:
            return self._codec.failed_get(error, "gat", key, default)

    async def get_many(self: AsyncClient[Optional[V]], keys: Iterable[K]) -> Dict[K, V]:
        """Does the same as :meth:`guira.Client.get_many`."""
        keys = list(keys)
        names = self._codec.keys("get_many", keys)
        pending = self._pending()
        items = await pending.answer(pending.calls.get_many(names))
        return self._codec.values("get_many", keys, items, self._codec.value)

    get_multi = get_many

    async def gets_many(self: AsyncClient[Optional[V]], keys: Iterable[K]) -> Dict[K, Tuple[V, int]]:
        """Does the same as :meth:`guira.Client.gets_many`."""
        keys = list(keys)
        names = self._codec.keys("gets_many", keys)
        pending = self._pending()
        items = await pending.answer(pending.calls.gets_many(names))
        return self._codec.values("gets_many", keys, items, self._codec.value_and_cas)

    async def set(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """Does the same as :meth:`guira.Client.set`."""
        row = self._codec.row("set", key, value, expire, flags)
        try:
            pending = self._pending()
            return bool(await pending.answer(pending.calls.set(*row)))
        except MemcacheError as error:
            raise codec.stored(error, "set", row, key)

    async def set_many(
        self,
        values: Mapping[K, Any],
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> List[K]:
        """Does the same as :meth:`guira.Client.set_many`."""
        rows = [self._codec.row("set_many", key, value, expire, flags) for key, value in values.items()]
        keys = list(values)
        pending = self._pending()
        return codec.not_stored("set_many", keys, await pending.answer(pending.calls.set_many(rows)))

    set_multi = set_many

    async def add(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """Does the same as :meth:`guira.Client.add`."""
        row = self._codec.row("add", key, value, expire, flags)
        try:
            pending = self._pending()
            return bool(await pending.answer(pending.calls.add(*row)))
        except MemcacheError as error:
            raise codec.stored(error, "add", row, key)

    async def replace(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """Does the same as :meth:`guira.Client.replace`."""
        row = self._codec.row("replace", key, value, expire, flags)
        try:
            pending = self._pending()
            return bool(await pending.answer(pending.calls.replace(*row)))
        except MemcacheError as error:
            raise codec.stored(error, "replace", row, key)

    async def cas(
        self,
        key: Key,
        value: Any,
        cas: Union[int, str, bytes],
        expire: int = 0,
        noreply: Optional[bool] = False,
        flags: Optional[int] = None,
    ) -> Optional[bool]:
        """Does the same as :meth:`guira.Client.cas`."""
        row = self._codec.row("cas", key, value, expire, flags)
        try:
            pending = self._pending()
            stored: Optional[bool] = await pending.answer(pending.calls.cas(*row, codec.unique(cas)))
            return stored
        except MemcacheError as error:
            raise codec.stored(error, "cas", row, key)

    async def append(self, key: Key, value: Any, noreply: Optional[bool] = None) -> bool:
        """Does the same as :meth:`guira.Client.append`."""
        try:
            pending = self._pending()
            return bool(await pending.answer(pending.calls.append(self._codec.key(key), self._codec.more(key, value))))
        except MemcacheError as error:
            raise error._of("append", key)

    async def prepend(self, key: Key, value: Any, noreply: Optional[bool] = None) -> bool:
        """Does the same as :meth:`guira.Client.prepend`."""
        try:
            pending = self._pending()
            return bool(await pending.answer(pending.calls.prepend(self._codec.key(key), self._codec.more(key, value))))
        except MemcacheError as error:
            raise error._of("prepend", key)

    async def touch(self, key: Key, expire: int = 0, noreply: Optional[bool] = None) -> bool:
        """Does the same as :meth:`guira.Client.touch`."""
        try:
            pending = self._pending()
            return bool(await pending.answer(pending.calls.touch(self._codec.key(key), codec.expiry(expire))))
        except MemcacheError as error:
            raise error._of("touch", key)

    async def delete(self, key: Key, noreply: Optional[bool] = None) -> bool:
        """Does the same as :meth:`guira.Client.delete`."""
        try:
            pending = self._pending()
            return bool(await pending.answer(pending.calls.delete(self._codec.key(key))))
        except MemcacheError as error:
            raise error._of("delete", key)

    async def delete_many(self, keys: Iterable[Key], noreply: Optional[bool] = None) -> bool:
        """Does the same as :meth:`guira.Client.delete_many`."""
        keys = list(keys)
        names = self._codec.keys("delete_many", keys)
        pending = self._pending()
        return codec.all_deleted("delete_many", keys, await pending.answer(pending.calls.delete_many(names)))

    delete_multi = delete_many

    async def incr(self, key: Key, value: int, noreply: Optional[bool] = False) -> Optional[int]:
        """Does the same as :meth:`guira.Client.incr`."""
        try:
            pending = self._pending()
            number: Optional[int] = await pending.answer(pending.calls.incr(self._codec.key(key), codec.amount(value)))
            return number
        except MemcacheError as error:
            raise error._of("incr", key)

    async def decr(self, key: Key, value: int, noreply: Optional[bool] = False) -> Optional[int]:
        """Does the same as :meth:`guira.Client.decr`."""
        try:
            pending = self._pending()
            number: Optional[int] = await pending.answer(pending.calls.decr(self._codec.key(key), codec.amount(value)))
            return number
        except MemcacheError as error:
            raise error._of("decr", key)

    async def flush_all(self, delay: int = 0, noreply: Optional[bool] = None) -> bool:
        """Does the same as :meth:`guira.Client.flush_all`."""
        codec.no_delay(delay)
        try:
            pending = self._pending()
            await pending.answer(pending.calls.flush_all())
            return True
        except MemcacheError as error:
            raise error._of("flush_all")

    async def version(self) -> bytes:
        """Does the same as :meth:`guira.Client.version`."""
        return codec.only_version(await self.versions())

    async def versions(self) -> Dict[str, str]:
        """Does the same as :meth:`guira.Client.versions`, in a thread of the loop's executor, over connections of its own."""
        answers = await asyncio.get_running_loop().run_in_executor(
            None, lambda: self._setup.client().versions()
        )
        return codec.of_servers("versions", answers)

    async def stats(self, *args: str) -> Dict[str, Dict[str, str]]:
        """Does the same as :meth:`guira.Client.stats`, in a thread of the loop's executor, over connections of its own."""
        answers = await asyncio.get_running_loop().run_in_executor(
            None, lambda: self._setup.client().stats(" ".join(args))
        )
        return {server: dict(stats) for server, stats in codec.of_servers("stats", answers).items()}

    def counters(self) -> Dict[str, int]:
        """Does the same as :meth:`guira.Client.counters`."""
        return dict(self._open().counters())
