"""Converts keys and values between Python and the bytes that servers store."""

from __future__ import annotations

from typing import Any, Callable, Dict, Hashable, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from ._typing import Deserializer, Item, Key, Row, Serde, Serializer
from .exceptions import (
    MemcacheClientError,
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheTooLargeError,
)

K = TypeVar("K", bound=Hashable)


class PlainSerde:
    """Stores bytes as they are and other values as their text. Or calls two functions."""

    def __init__(
        self, serializer: Optional[Serializer] = None, deserializer: Optional[Deserializer] = None
    ) -> None:
        self._serializer = serializer
        self._deserializer = deserializer

    def serialize(self, key: Any, value: Any) -> Tuple[Any, int]:
        return (value, 0) if self._serializer is None else self._serializer(key, value)

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        return value if self._deserializer is None else self._deserializer(key, value, flags)


def number(value: Any, name: str, least: int, most: int) -> int:
    if not isinstance(value, int):
        raise MemcacheIllegalInputError(f"{name} must be an integer, not {value!r}")
    if not least <= value <= most:
        raise MemcacheIllegalInputError(f"{name} must be from {least} to {most}, not {value}")
    return value


def expiry(expire: Any) -> int:
    return number(expire, "expire", -(2**31), 2**31 - 1)


def amount(value: Any) -> int:
    return number(value, "value", 0, 2**64 - 1)


def unique(cas: Any) -> int:
    digits = cas.decode("latin-1") if isinstance(cas, bytes) else cas
    if isinstance(digits, str):
        if not (digits.isascii() and digits.isdigit()):
            raise MemcacheIllegalInputError(f"cas must have digits only, not {cas!r}")
        digits = int(digits)
    return number(digits, "cas", 0, 2**64 - 1)


def _bad_key(key: Any, problem: str) -> MemcacheIllegalInputError:
    error = MemcacheIllegalInputError(problem)
    error.key = key
    return error


class Codec:
    def __init__(
        self,
        serde: Optional[Serde],
        serializer: Optional[Serializer],
        deserializer: Optional[Deserializer],
        key_prefix: Key,
        allow_unicode_keys: bool,
        encoding: str,
        ignore_exc: bool,
    ) -> None:
        if serde is not None and (serializer is not None or deserializer is not None):
            raise ValueError("pass either serde, or serializer and deserializer")
        self._serde: Serde = serde or PlainSerde(serializer, deserializer)
        self._key_encoding = "utf-8" if allow_unicode_keys else "ascii"
        self._encoding = encoding
        self._ignore_exc = ignore_exc
        self._prefix = b""
        self._prefix = self.key(key_prefix)

    def key(self, key: Key) -> bytes:
        if isinstance(key, str):
            try:
                key = key.encode(self._key_encoding)
            except UnicodeEncodeError:
                name = self._key_encoding.upper()
                raise _bad_key(key, f"the key is not {name}") from None
        elif not isinstance(key, bytes):
            raise _bad_key(key, f"a key must be str or bytes, not {type(key).__name__}")
        return self._prefix + key

    def keys(self, call: str, keys: Sequence[Any]) -> List[bytes]:
        try:
            return [self.key(key) for key in keys]
        except MemcacheError as error:
            raise error._of(call)

    def more(self, key: Key, value: Any) -> bytes:
        """The bytes that append and prepend add to a value."""
        return self._packed(key, value)[0]

    def row(self, call: str, key: Key, value: Any, expire: int, flags: Optional[int]) -> Row:
        try:
            packed, own_flags = self._packed(key, value)
            flags = number(own_flags if flags is None else flags, "flags", 0, 2**32 - 1)
            return self.key(key), packed, flags, expiry(expire)
        except MemcacheError as error:
            raise error._of(call, key)

    def _packed(self, key: Key, value: Any) -> Tuple[bytes, int]:
        packed, flags = self._serde.serialize(key, value)
        if isinstance(packed, (bytearray, memoryview)):
            packed = bytes(packed)
        elif not isinstance(packed, bytes):
            try:
                packed = str(packed).encode(self._encoding)
            except UnicodeEncodeError as error:
                name = self._encoding.upper()
                raise MemcacheIllegalInputError(f"the value is not {name}: {error.reason}") from None
        return packed, flags

    def value(self, key: Key, item: Item) -> Any:
        return self._serde.deserialize(key, item[0], item[1])

    def value_and_cas(self, key: Key, item: Item) -> Tuple[Any, Optional[int]]:
        return self.value(key, item), item[2]

    def failed_get(self, error: Exception, call: str, key: Key, default: Any) -> Any:
        """Returns the default if failed gets count as misses, or raises the error."""
        if isinstance(error, MemcacheError):
            error._of(call, key)
        if self._ignore_exc and not isinstance(error, MemcacheIllegalInputError):
            return default
        raise error

    def values(
        self,
        call: str,
        keys: Sequence[K],
        items: Iterable[Union[Item, Exception, None]],
        value: Callable[[Any, Item], Any],
    ) -> Dict[K, Any]:
        """Returns the values of the keys that were found."""
        found: Dict[K, Any] = {}
        failed: Dict[K, Exception] = {}
        for key, item in zip(keys, items):
            if isinstance(item, Exception):
                failed[key] = item
            elif item is not None:
                try:
                    found[key] = value(key, item)
                except Exception as error:
                    failed[key] = error
        if failed:
            worst = _worst(failed)
            if not self._ignore_exc or isinstance(worst, MemcacheIllegalInputError):
                raise with_all(call, worst, found, failed)
        return found


def _worst(failed: Mapping[Any, Exception]) -> Exception:
    """Chooses the error to raise for many keys: mistakes of the caller before failures of servers."""
    errors = list(failed.values())
    return next((error for error in errors if isinstance(error, MemcacheIllegalInputError)), errors[0])


def with_all(
    call: str, error: Exception, found: Dict[Any, Any], failed: Dict[Any, Exception]
) -> Exception:
    """Returns the error with the results and the errors of all keys."""
    for key, one in failed.items():
        if isinstance(one, MemcacheError):
            one._of(call, key)
    return _with_all(error, found, failed)


def _with_all(error: Exception, found: Dict[Any, Any], failed: Dict[Any, Exception]) -> Exception:
    if isinstance(error, MemcacheError):
        error.found, error.failed = found, failed
    return error


def stored(error: MemcacheError, call: str, row: Row, key: Key) -> MemcacheError:
    """Returns the error of a store with its key, and with the size of the value if that is the problem."""
    if isinstance(error, MemcacheTooLargeError):
        error.args = (f"{error.args[0]} (the value has {len(row[1])} bytes)",)
    return error._of(call, key)


def not_stored(call: str, keys: Sequence[K], results: Iterable[Union[bool, Exception]]) -> List[K]:
    """Returns the keys of the values that no server has acknowledged."""
    failed: Dict[K, Exception] = {}
    missing = []
    for key, result in zip(keys, results):
        if isinstance(result, Exception):
            failed[key] = result
        if result is not True:
            missing.append(key)
    if failed and isinstance(_worst(failed), MemcacheIllegalInputError):
        raise with_all(call, _worst(failed), {}, failed)
    return missing


def all_deleted(call: str, keys: Sequence[Any], results: Iterable[Union[bool, Exception]]) -> bool:
    failed = {key: result for key, result in zip(keys, results) if isinstance(result, Exception)}
    if failed:
        raise with_all(call, _worst(failed), {}, failed)
    return True


def of_servers(call: str, answers: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the reply of each server, if all servers have replied."""
    failed = {server: answer for server, answer in answers.items() if isinstance(answer, Exception)}
    replies = {server: answer for server, answer in answers.items() if server not in failed}
    if failed:
        for one in failed.values():
            if isinstance(one, MemcacheError):
                one._of(call)
        raise _with_all(_worst(failed), replies, failed)
    return replies


def only_version(versions: Mapping[str, str]) -> bytes:
    if len(versions) != 1:
        raise MemcacheClientError("the client has several servers: call versions")._of("version")
    return next(iter(versions.values())).encode()


def no_delay(delay: int) -> None:
    if delay != 0:
        raise NotImplementedError("flush_all of guira has no delay")
