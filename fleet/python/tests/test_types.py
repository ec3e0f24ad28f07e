"""The types of results, as mypy sees them."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("mypy")

PROGRAM = '''
from typing import Any, Dict, Optional, Tuple, Union

import guira


class Serde:
    def serialize(self, key: Any, value: Any) -> Tuple[Any, int]:
        return value, 0

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        return value


def plain(client: guira.Client) -> None:
    value: Optional[bytes] = client.get("k")
    default: Union[bytes, int] = client.get("k", 7)
    certain: bytes = client.get("k", b"")
    pair: Tuple[Optional[bytes], Optional[int]] = client.gets("k")
    known: Tuple[bytes, int] = client.gets("k", b"", 0)
    touched: Optional[bytes] = client.gat("k", 10)
    renewed: bytes = client.gat("k", 10, default=b"")
    many: Dict[str, bytes] = client.get_many(["k"])
    multi: Dict[bytes, bytes] = client.get_multi([b"k"])
    uniques: Dict[str, Tuple[bytes, int]] = client.gets_many(["k"])
    item: bytes = client["k"]
    client.get("k").decode()  # E: union-attr
    wrong: int = client.get("k")  # E: assignment
    client.get_many(["k"])["k"].upper().no_such()  # E: attr-defined


async def waiting(client: guira.AsyncClient) -> None:
    value: Optional[bytes] = await client.get("k")
    certain: bytes = await client.get("k", b"")
    many: Dict[str, bytes] = await client.get_many(["k"])
    uniques: Dict[str, Tuple[bytes, int]] = await client.gets_many(["k"])
    (await client.get("k")).decode()  # E: union-attr


async def made() -> None:
    plain(guira.Client("a:1", timeout=2, key_prefix="p:", max_pool_size=3))
    plain(guira.Client(config={}, serializer=lambda key, value: (b"", 0)))
    reveal_type(guira.Client("a:1").get("k"))  # N: Union[builtins.bytes, None]
    reveal_type(guira.Client("a:1", serde=Serde()).get("k"))  # N: Any
    reveal_type(guira.Client("a:1", deserializer=Serde().deserialize).get("k"))  # N: Any
    guira.Client("a:1", serde=Serde()).get("k").whatever()
    await waiting(guira.AsyncClient("a:1", timeout=2))
    reveal_type(await guira.AsyncClient(["a:1"], serde=Serde()).get("k"))  # N: Any
    users: "guira.Client[Optional[str]]" = guira.Client("a:1", serde=Serde())
    reveal_type(users.get("k"))  # N: Union[builtins.str, None]
    reveal_type(users.get_many(["k"]))  # N: builtins.dict[builtins.str, builtins.str]
    anything: "guira.Client[Any]" = guira.Client("a:1", serde=Serde())
    reveal_type(anything.get("k"))  # N: Any
    reveal_type(anything.get_many(["k"]))  # N: builtins.dict[builtins.str, Any]
    with guira.Client("a:1") as client:
        plain(client)
    async with guira.AsyncClient("a:1") as other:
        await waiting(other)
    guira.Client("a:1", connect_timeout=1)  # E: call-overload
    guira.AsyncClient("a:1", max_pool_size=1)  # E: call-overload
    print(guira.__version__.split("."))


def failed(error: guira.MemcacheError) -> Tuple[Optional[str], Optional[str]]:
    return error.call, error.server
'''


def mypy(folder, *arguments):
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.9", *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "MYPY_CACHE_DIR": str(folder)}
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_results_have_the_types_of_their_values(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    expected, found = {}, {}
    for number, line in enumerate(PROGRAM.splitlines(), 1):
        for mark in ("E", "N"):
            if f"  # {mark}: " in line:
                expected[number] = line.split(f"  # {mark}: ")[1]
    for line in mypy(tmp_path, "program.py"):
        place, kind, text = line.split(": ", 2) if line.startswith("program.py:") else ("", "", "")
        number = int(place.split(":")[1]) if place else 0
        if kind == "error":
            found[number] = text.rsplit("[", 1)[1].rstrip("]")
        elif text.startswith("Revealed type is "):
            found[number] = text.split('"')[1]
    assert found == expected


def test_the_package_has_no_type_errors(tmp_path):
    assert mypy(tmp_path, "-p", "guira")[-1].startswith("Success")
