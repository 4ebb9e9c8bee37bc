"""A file as importers see it: its bytes, its text, its JSON objects, each made once on demand."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from functools import cached_property
from typing import Any

from planner.errors import Where
from planner.importers.fields import Fields
from planner.importers.refusal import ImportRefused
from planner.plan.runs import Source

MOST_BYTES = 512 * 2**20
"""Larger files, packed or unpacked, are refused: JSON takes several times its size in memory."""

_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\x00"
_CHUNK = 2**20
_ENCODINGS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_JSON_BEGINS = re.compile(r"\s*(?:\{|\[\s*[\[{\]])")
_SMALLER = "record fewer steps or leave out single requests"


class Document:
    """One file, recognised and read by content. ``file`` only names it in messages."""

    def __init__(self, raw: bytes, file: str) -> None:
        """Raises ImportRefused for an empty file and for one of over 512 MiB."""
        self.file = file
        self.where = Where(file)
        self._sha256: str | None = None
        self.original = raw
        if not raw:
            raise ImportRefused(self.where, "the file is empty")
        if len(raw) > MOST_BYTES:
            raise ImportRefused(self.where, "the file is larger than 512 MiB", _SMALLER)
        self.raw = unpacked(raw, self.where) if raw.startswith(_GZIP) else raw

    def source(self, form: str, tool: str) -> Source:
        """Where a run came from: hash and size are of the file as it lies on disk."""
        if self._sha256 is None:
            self._sha256 = hashlib.sha256(self.original).hexdigest()
        return Source(form, tool, self._sha256, len(self.original))

    @property
    def is_sqlite(self) -> bool:
        """Whether the bytes begin as an SQLite database does."""
        return self.raw.startswith(_SQLITE)

    @property
    def is_json(self) -> bool:
        """Whether the text begins as a JSON object, or an array of them, does."""
        return not self.is_sqlite and _JSON_BEGINS.match(self.text) is not None

    @cached_property
    def text(self) -> str:
        """The file as text: UTF-8, or UTF-16 with its mark, as some shells redirect.

        Raises ImportRefused when it is neither.
        """
        encoding = next((name for mark, name in _ENCODINGS if self.raw.startswith(mark)), "utf-8")
        try:
            return self.raw.decode(encoding)
        except UnicodeDecodeError as error:
            line = self.raw.count(b"\n", 0, error.start) + 1
            raise ImportRefused(
                Where(self.file, line, 1),
                "the file is neither text in UTF-8 nor a format known here",
                "importers read JSON, CSV, logs, gzip and SQLite exports",
            ) from error

    @cached_property
    def records(self) -> tuple[Fields, ...]:
        """The JSON objects of the file: one, one per line, or those of one array.

        Raises ImportRefused, with line and column, for JSON that ends early or is none.
        """
        found: list[Fields] = []
        for value, where in self._values():
            items = value if isinstance(value, list) else [value]
            if not all(isinstance(item, dict) for item in items):
                raise ImportRefused(where, "JSON holds something other than objects here")
            found += [Fields(item, where) for item in items]
        return tuple(found)

    @property
    def only(self) -> Fields:
        """The one JSON object of a format that has one per file."""
        if len(self.records) != 1:
            raise ImportRefused(
                self.where,
                f"{len(self.records)} JSON objects where this format has one",
                "give one file at a time",
            )
        return self.records[0]

    def _values(self) -> list[tuple[Any, Where]]:
        decoder, values, position = json.JSONDecoder(), [], _skip(self.text, 0)
        line, counted = 1, 0
        while position < len(self.text):
            line, counted = line + self.text.count("\n", counted, position), position
            value, position = self._decoded(decoder, position)
            values.append((value, Where(self.file, line, 1)))
            position = _skip(self.text, position)
        if len(values) == 1:  # the object is the whole file: its first line says nothing
            values = [(values[0][0], self.where)]
        return values

    def _decoded(self, decoder: json.JSONDecoder, position: int) -> tuple[Any, int]:
        try:
            return decoder.raw_decode(self.text, position)
        except json.JSONDecodeError as error:
            early = not self.text[error.pos :].strip() or error.msg.startswith("Unterminated")
            reason = "the JSON ends too early" if early else f"this is no JSON: {error.msg}"
            raise ImportRefused(
                Where(self.file, error.lineno, error.colno),
                reason,
                "was the benchmark stopped, or the copy cut off?" if early else None,
            ) from error
        except (RecursionError, ValueError) as error:
            raise ImportRefused(
                self.where, "the JSON is nested too deeply or holds a number too long to read"
            ) from error


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def unpacked(raw: bytes, where: Where, most: int = MOST_BYTES) -> bytes:
    """What a gzip file holds, of ``most`` bytes at the most.

    Raises ImportRefused when it is damaged, cut off or unpacks to more.
    """
    parts: list[bytes] = []
    size, rest = 0, raw
    while rest:
        stream = zlib.decompressobj(wbits=31)
        while not stream.eof:
            try:
                part = stream.decompress(rest, _CHUNK)
            except zlib.error as error:
                raise ImportRefused(where, "the gzip file is damaged") from error
            rest = stream.unconsumed_tail
            if not part and not rest and not stream.eof:
                raise ImportRefused(where, "the gzip file ends too early", "was the copy cut off?")
            size += len(part)
            if size > most:
                raise ImportRefused(where, f"unpacks to more than {most} bytes", _SMALLER)
            parts.append(part)
        rest = stream.unused_data.lstrip(b"\0")
    return b"".join(parts)
