"""Variables of a shell: ``$NAME``, ``${NAME:-default}``, ``"${ARRAY[@]}"``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from planner.errors import Where
from planner.importers.engine.words import Word

NAME = r"[A-Za-z_]\w*"
_BRACED = re.compile(
    rf"\$\{{({NAME}|[0-9])(\[[@*]\])?(?::?([-+=?])([^}}]*))?\}}|\$({NAME}|[0-9])|\$\(({NAME})\)"
)
_DEEPEST = 8
_LONGEST = 20_000


@dataclass(frozen=True)
class Piece:
    """A part of a word."""

    text: str
    quoted: bool
    raw: bool = False
    """Whether it holds no variables: characters, and what stands in single quotes."""


@dataclass
class Variables:
    """What the text has set so far."""

    values: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[Word]] = field(default_factory=dict)
    unset: dict[str, str] = field(default_factory=dict)
    """Variables whose text needs one that nothing sets, and which."""

    def texts(self) -> dict[str, str]:
        """All variables that are text."""
        return dict(self.values)

    def set_text(self, name: str, word: Word, start: int, *, more: bool = False) -> None:
        """Set a variable to what stands in a word from ``start`` on."""
        text = word.text[start:]
        if more and name in self.lists:
            self.lists[name].append(replace(word, text=text))
            return
        before = self.values.get(name, "") if more else ""
        self.values[name] = (before + text)[:_LONGEST]
        self.lists.pop(name, None)
        self.unset.pop(name, None)
        if word.missing:
            self.unset[name] = word.missing

    def set_list(self, name: str, words: list[Word], *, more: bool = False) -> None:
        """Set an array."""
        self.lists[name] = [*(self.lists.get(name, []) if more else []), *words]

    def expand(self, text: str, depth: int = 0) -> tuple[str, str | None]:
        """A text with variables put in, and one that nothing sets, which stays as it is written."""
        missing: list[str] = []

        def put(found: re.Match[str]) -> str:
            name = found[1] or found[5] or found[6]
            value, operator, word = self.values.get(name), found[3], found[4] or ""
            if name in self.lists:
                value = " ".join(each.text for each in self.lists[name])
            if operator == "+":
                return self.expand(word, depth + 1)[0] if value and depth < _DEEPEST else ""
            if not value and operator in ("-", "=") and depth < _DEEPEST:
                value, inner = self.expand(word, depth + 1)
                missing.extend([inner] if inner else [])
            if value is None:
                missing.append(f"${name}" if name.isdecimal() else name)
                return found[0]
            if name in self.unset:
                missing.append(self.unset[name])
            return value

        expanded = _BRACED.sub(put, text)[:_LONGEST]
        if "$" in expanded and not missing:
            missing += [part[:40] for part in re.findall(r"\$\([^)]*\)|\$[0-9@*#]", expanded)]
        return expanded, missing[0] if missing else None


def joined(pieces: Sequence[Piece], where: Where, variables: Variables) -> Iterator[Word]:
    """The words that one written word stands for: several for an array or an unquoted list."""
    if len(pieces) <= _QUOTED_ARRAY:
        written = "".join(piece.text for piece in pieces)
        array = re.fullmatch(rf"\$\{{({NAME})\[[@*]\]\}}", written)
        if array:
            yield from variables.lists.get(array[1], ())
            return
    parts: list[str] = [""]
    missing: str | None = None
    for piece in pieces:
        text, unset = (piece.text, None) if piece.raw else variables.expand(piece.text)
        missing = missing or unset
        if piece.quoted or "$" not in piece.text:
            parts[-1] += text
            continue
        first, *rest = re.split(r"\s+", text)
        parts[-1] += first
        parts += rest
    quoted = any(piece.quoted for piece in pieces)
    yield from (Word(part, where, missing) for part in parts if part or quoted)


_QUOTED_ARRAY = 2
"""Pieces of ``"${ARRAY[@]}"``: the opening quote and the variable."""
