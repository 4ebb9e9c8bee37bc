"""YAML text to plain data with a mark for every path, refusing what a spec never needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from planner.errors import Fault, PlannerError, SpecError, UsageError
from planner.registry import nearest
from planner.spec.faults import MOST_FAULTS
from planner.spec.nodes import DEEPEST, Node, parse
from planner.spec.origin import Document, Mark
from planner.spec.origin import Path as Place
from planner.spec.scalars import resolve

LARGEST_BYTES = 2**20
"""Size of the largest spec that is read."""

MOST_ALIASED = 10_000
"""Nodes that aliases may add to a text; beyond it lies an alias bomb."""

_TAGS = {
    "scalar": {"!", "tag:yaml.org,2002:str"},
    "list": {"!", "tag:yaml.org,2002:seq"},
    "map": {"!", "tag:yaml.org,2002:map"},
}
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_REFUSED = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Reading:
    """What was read of a text, with the faults found so far."""

    data: dict[str, Any]
    document: Document
    faults: tuple[Fault, ...]
    whole: bool
    """Whether nothing was dropped, so that a missing field is truly missing."""


def compose(raw: bytes | str, file: str) -> tuple[Any, Document]:
    """Plain data of a YAML text, and its document with a mark for every path.

    Raises SpecError with every fault: YAML syntax, duplicate keys, keys that aren't text, unknown
    tags, merge keys, aliases that explode, depth, size, encoding, no mapping or several.
    """
    reading = read(raw, file)
    if reading.faults:
        raise SpecError(reading.faults)
    return reading.data, reading.document


def read(raw: bytes | str, file: str) -> Reading:
    """As `compose`, but keeps faults that leave the rest readable, so that more can be found.

    Raises SpecError where the text cannot be read on.
    """
    text, document = opened(raw, file)
    faults: list[Fault] = []
    root = parse(text, document, faults)
    if root is None or (root.kind == "scalar" and not root.text):
        where = (root.line, root.column) if root else (1 if raw else 0, 1)
        raise SpecError([*faults, document.fault(*where, "there is nothing in this file")])
    if root.kind != "map":
        message, hint = "a spec is a mapping", "begin with 'key: value' lines"
        raise SpecError([*faults, document.fault(root.line, root.column, message, hint)])
    built = Construction(document, faults)
    data = built.value(root, ())
    built.mark((), root, root)
    marked = Document(file, document.lines, built.marks)
    return Reading(data, marked, tuple(faults[:MOST_FAULTS]), built.whole)


def opened(raw: bytes | str, file: str) -> tuple[str, Document]:
    """The text of a file, and its document without marks.

    Raises SpecError beyond 1 MiB, for bytes that are no UTF-8 and for characters YAML refuses.
    """
    text = _decoded(raw, file)
    document = Document(file, tuple(_BREAK.split(text)))
    if found := _REFUSED.search(text):
        raise SpecError([_character(found, text, document)])
    return text, document


def _decoded(raw: bytes | str, file: str) -> str:
    size = len(raw) if isinstance(raw, bytes) else len(raw.encode("utf-8", "surrogatepass"))
    if size > LARGEST_BYTES:
        message = f"larger than 1 MiB ({size:,} bytes), too large for a spec"
        raise SpecError([Document(file).fault(1, 1, message)])
    if isinstance(raw, str):
        return raw.removeprefix("\ufeff")
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        shown = tuple(_BREAK.split(raw.decode("utf-8", "replace")))
        raise SpecError([_encoding(before, Document(file, shown))]) from None


def _encoding(before: str, document: Document) -> Fault:
    lines = _BREAK.split(before)
    message, hint = "a byte that is no UTF-8 text", "save the file as UTF-8"
    return document.fault(len(lines), len(lines[-1]) + 1, message, hint)


def _character(found: re.Match[str], text: str, document: Document) -> Fault:
    lines = _BREAK.split(text[: found.start()])
    name = "a NUL byte" if found[0] == "\0" else f"the character U+{ord(found[0]):04X}"
    message, hint = f"{name} cannot stand in a spec", "is this a text file?"
    return document.fault(len(lines), len(lines[-1]) + 1, message, hint)


class Construction:
    """Turns nodes into data; collects marks and faults on its way."""

    def __init__(
        self, document: Document, faults: list[Fault], home: Document | None = None
    ) -> None:
        """``home`` is the text that marks point to, where it isn't the file itself."""
        self.document = document
        self.faults = faults
        self.home = home
        self.marks: dict[Place, Mark] = {}
        self.whole = True
        self._entered: set[int] = set()
        self._aliases = 0
        self._aliased = 0

    def mark(self, path: Place, key: Node, value: Node) -> None:
        """Note where the key and the value of ``path`` begin."""
        place = Mark(key.line, key.column, value.line, value.column, self.home)
        self.marks[path] = place

    def value(self, node: Node, path: Place) -> Any:
        """The data of a node that stands at ``path``."""
        if self._aliases:
            self._aliased += 1
        if self._aliased > MOST_ALIASED:
            self._stop(node, f"aliases expand to more than {MOST_ALIASED:,} values")
        if len(path) > DEEPEST:
            self._stop(node, f"nested deeper than {DEEPEST} levels")
        if node.kind == "alias":
            return self._alias(node, path)
        if node.tag is not None and node.tag not in _TAGS[node.kind]:
            shown = node.tag.replace("tag:yaml.org,2002:", "!!")[:40]
            self._fault(node, f"the tag {shown} is not read", "write the value without it")
        if node.kind == "scalar":
            return self._scalar(node)
        self._entered.add(id(node))
        data = self._list(node, path) if node.kind == "list" else self._map(node, path)
        self._entered.discard(id(node))
        return data

    def _alias(self, node: Node, path: Place) -> Any:
        if not node.children:
            self.whole = False
            return None
        target = node.children[0]
        if id(target) in self._entered:
            self.whole = False
            self._fault(node, f"*{node.text} stands inside what it repeats")
            return None
        self._aliases += 1
        data = self.value(target, path)
        self._aliases -= 1
        return data

    def _scalar(self, node: Node) -> Any:
        if _CONTROL.search(node.text):
            self._fault(node, "an escape makes a control character, which no text may hold")
        if not node.plain or node.tag is not None:
            return node.text
        try:
            return resolve(node.text)
        except ValueError as error:
            self._fault(node, str(error))
            return node.text

    def _list(self, node: Node, path: Place) -> list[Any]:
        items = []
        for position, child in enumerate(node.children):
            here = (*path, position)
            self.mark(here, child, child)
            items.append(self.value(child, here))
        return items

    def _map(self, node: Node, path: Place) -> dict[str, Any]:
        data: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, child in node.pairs():
            name = self._key(key)
            if name is None:
                self.whole = False
            elif name in data:
                self._fault(key, f"duplicate key {name[:60]!r}", f"first in line {lines[name]}")
            else:
                here = (*path, name)
                self.mark(here, key, child)
                lines[name] = key.line
                data[name] = self.value(child, here)
        return data

    def _key(self, node: Node) -> str | None:
        """The text of a key; None where it has none and its value is lost."""
        if node.kind != "scalar":
            self._fault(node, "a key must be text")
            return None
        if node.plain and node.text == "<<":
            hint = "repeat the fields, or use an alias for a whole value"
            self._fault(node, "merge keys are not read", hint)
            return None
        value = self._scalar(node)
        if isinstance(value, str):
            return value
        message = f"a key must be text, not {node.text}" if node.text else "a key is empty"
        self._fault(node, message, f"put it in quotes: '{node.text}'" if node.text else None)
        return node.text

    def _fault(self, node: Node, message: str, hint: str | None = None) -> None:
        self.faults.append(self.document.fault(node.line, node.column, message, hint))

    def _stop(self, node: Node, message: str) -> NoReturn:
        raise SpecError([*self.faults, self.document.fault(node.line, node.column, message)])


def read_bytes(path: Path) -> bytes:
    """The content of a spec file, at most 1 MiB.

    Raises UsageError for a missing file, a folder, one too large or one that cannot be read.
    """
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder, not a spec")
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is larger than 1 MiB, too large for a spec")
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise absent(path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PlannerError(f"cannot read {str(path)!r}: {reason}") from None
    if len(raw) > LARGEST_BYTES:
        raise UsageError(f"{path} is larger than 1 MiB, too large for a spec")
    return raw


def absent(path: Path) -> UsageError:
    """The error for a file that does not exist, with the name of one that may be meant."""
    return UsageError(f"there is no file {path}", _neighbour(path))


def _neighbour(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either"
    try:
        near = nearest(path.name, sorted(entry.name for entry in path.parent.iterdir()))
    except OSError:  # a folder that may be entered but not listed has no names to offer
        return None
    return f"did you mean {str(path.parent / near)!r}?" if near else None
