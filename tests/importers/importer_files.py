"""The example files of the importers' tests, and random damage to them."""

import copy
import gzip
import json
import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path

FOLDER = Path(__file__).parent / "files"
GOOD = tuple(
    sorted(
        path.name.replace(".sql", ".sqlite")
        for path in FOLDER.iterdir()
        if not path.name.startswith("bad_")
    )
)
BAD = tuple(sorted(path.name for path in FOLDER.iterdir() if path.name.startswith("bad_")))


def raw(name: str) -> bytes:
    """The bytes of an example; the database is made from its statements."""
    if name.endswith(".sqlite"):
        return database((FOLDER / name.replace(".sqlite", ".sql")).read_text("utf-8"))
    return (FOLDER / name).read_bytes()


def database(statements: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(statements)
        return connection.serialize()


def changed(name: str, **changes) -> bytes:
    """A JSON example with some values of its first object replaced, or dropped by None."""
    values = json.loads(raw(name).decode().splitlines()[0])
    return json.dumps({k: v for k, v in {**values, **changes}.items() if v is not None}).encode()


_VALUES = (
    None, True, "text", "", "8", [], {}, [1], {"unit": "furlongs"}, float("nan"), float("inf"), -1,
    0, -0.0, 1e308, 10**400, 5e-324, 0.5, [[[None]]], "\ud800", "a\nb", 2**63, ["x"], {"a": 1},
)  # fmt: skip
_WORDS = (b"nan", b"-1", b"1e999", b"", b"9" * 5000, b"-0", b"x", b"[", b'"', b"0", b"1,2,3")


def mutated(data: bytes, seed: str) -> bytes:
    """The file with one kind of damage, the same for the same seed."""
    chance = random.Random(seed)
    kinds = [_cut, _flipped, _without_slice, _doubled, _recoded, _packed, _number, _number]
    if data.startswith((b"{", b"[\n")):
        kinds += [_json] * 10
    return chance.choice(kinds)(data, chance)


def _cut(data, chance):
    return data[: chance.randrange(len(data))]


def _flipped(data, chance):
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 1, 5, 50))):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def _without_slice(data, chance):
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randrange(200) :]


def _doubled(data, chance):
    start = chance.randrange(len(data))
    end = start + chance.randrange(300)
    return data[:end] + data[start:]


def _recoded(data, chance):
    text = data.decode("utf-8", "replace")
    encoding = chance.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp037"))
    return ("é" * chance.randrange(2) + text).encode(encoding, "replace")


def _packed(data, chance):
    packed = gzip.compress(data, mtime=0)
    return packed if chance.random() < 0.5 else packed[: chance.randrange(len(packed))]


def _number(data, chance):
    numbers = list(re.finditer(rb"\d+(?:\.\d+)?", data))
    one = chance.choice(numbers)
    return data[: one.start()] + chance.choice(_WORDS) + data[one.end() :]


def _json(data, chance):
    try:
        values = json.loads(data)
    except json.JSONDecodeError:
        lines = data.decode().splitlines()
        index = chance.randrange(len(lines))
        lines[index] = json.dumps(_disturbed(json.loads(lines[index]), chance))
        return "\n".join(lines).encode("utf-8", "surrogatepass")
    return json.dumps(_disturbed(values, chance)).encode("utf-8", "surrogatepass")


def _disturbed(values, chance):
    """One to three places of a JSON value dropped, or replaced by something unfit."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        holder = values
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                break
            key = chance.choice(keys)
            inner = holder[key]
            if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
                holder = inner
                continue
            if chance.random() < 0.25:
                del holder[key]
            else:
                holder[key] = copy.deepcopy(chance.choice(_VALUES))
            break
    return values
