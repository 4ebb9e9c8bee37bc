"""Shell text to commands: quotes, continuations, comments, variables, arrays, heredocs.

Nothing is run. Loops and branches are read through as if every line were reached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.importers.engine.variables import NAME, Piece, Variables, joined
from planner.importers.engine.words import Command, Places, Word

_OPERATORS = frozenset(";&|()<>\n")
_HEREDOC = re.compile(r"<<(-?)\s*(['\"]?)([A-Za-z_][\w.-]*)\2")
_TARGET = r"&?(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s<>|&;()]+)"
_REDIRECT = re.compile(rf"(\d*)(>>|>\||>&|<&|>|<<<|<)(?:[ \t]*({_TARGET}))?")
_ASSIGNED = re.compile(rf"({NAME})(\+?)=")
_KEYWORDS = frozenset(
    ("then", "do", "else", "elif", "if", "while", "until", "{", "}", "!", "fi", "done")
)
_DECLARING = frozenset(("export", "declare", "local", "readonly", "typeset", "env", "set"))
MOST_WORDS = 20_000


@dataclass
class _Open:
    """The word being read."""

    start: int = -1
    pieces: list[Piece] = field(default_factory=list)

    def add(self, index: int, text: str, *, quoted: bool, raw: bool = False) -> None:
        if self.start < 0:
            self.start = index
        self.pieces.append(Piece(text, quoted, raw))


def commands(places: Places, environment: Mapping[str, str]) -> tuple[Command, ...]:
    """Every simple command of a text, with variables put in. ``environment`` is set beforehand."""
    return _Reader(places, Variables(dict(environment))).run()


class _Reader:
    """Walks the text once."""

    def __init__(self, places: Places, variables: Variables) -> None:
        self.places = places
        self.text = places.text
        self.variables = variables
        self.found: list[Command] = []
        self.words: list[Word] = []
        self.word = _Open()
        self.heredocs: list[re.Match[str]] = []
        self.target: str | None = None
        """The file that the commands of this line write to."""
        self.files: dict[str, Places] = {}
        self.array: str | None = None
        self.count = 0

    def run(self) -> tuple[Command, ...]:
        index = 0
        while index < len(self.text) and self.count <= MOST_WORDS:
            index = self._step(index)
        self._end_command()
        return tuple(self.found)

    def _step(self, index: int) -> int:
        character = self.text[index]
        if character in "'\"":
            return self._quoted(index, character)
        if character in "\\$":
            dollar = character == "$"
            return self._dollar(index, quoted=False) if dollar else self._escape(index)
        if character == "#" and self.word.start < 0:
            return self._line_end(index)
        return self._redirect(index) or self._rest(index, character)

    def _rest(self, index: int, character: str) -> int:
        if character in _OPERATORS:
            return self._operator(index, character)
        if character in " \t\r":
            self._end_word()
        else:
            self.word.add(index, character, quoted=False)
        return index + 1

    def _line_end(self, index: int) -> int:
        found = self.text.find("\n", index)
        return len(self.text) if found < 0 else found

    def _escape(self, index: int) -> int:
        following = self.text[index + 1 : index + 3]
        if following.startswith("\n"):
            return index + 2
        if following.startswith("\r\n"):
            return index + 3
        self.word.add(index, following[:1], quoted=True, raw=True)
        return index + 2

    def _quoted(self, index: int, quote: str) -> int:
        self.word.add(index, "", quoted=True, raw=True)
        position = index + 1
        while position < len(self.text) and self.text[position] != quote:
            if quote == '"' and self.text[position] == "\\":
                follow = self.text[position + 1 : position + 2]
                kept = "" if follow == "\n" else follow if follow in '"\\$`' else f"\\{follow}"
                self.word.add(position, kept, quoted=True, raw=True)
                position += 2
            elif quote == '"' and self.text[position] == "$":
                position = self._dollar(position, quoted=True)
            else:
                self.word.add(position, self.text[position], quoted=True, raw=True)
                position += 1
        return position + 1

    def _dollar(self, index: int, *, quoted: bool) -> int:
        end = self._dollar_end(index)
        self.word.add(index, self.text[index:end], quoted=quoted)
        return end

    def _dollar_end(self, index: int) -> int:
        opening = self.text[index + 1 : index + 2]
        if opening and opening in "{(":
            closing = {"{": "}", "(": ")"}[opening]
            depth, position = 1, index + 2
            while position < len(self.text) and depth:
                depth += {opening: 1, closing: -1}.get(self.text[position], 0)
                position += 1
            return position
        found = re.compile(rf"\$(?:{NAME}|[0-9@*#?$!-])").match(self.text, index)
        return found.end() if found else index + 1

    def _redirect(self, index: int) -> int | None:
        """Past ``2>&1``, ``> log`` and ``<<EOF``; None where there is no redirection."""
        if self.word.start >= 0 and self.text[index] not in "<>":
            return None
        if heredoc := _HEREDOC.match(self.text, index):
            self._end_word()
            self.heredocs.append(heredoc)
            return heredoc.end()
        found = _REDIRECT.match(self.text, index)
        if found is None or self.array is not None:
            return None
        self._end_word()
        if found[2] in (">", ">>", ">|") and found[1] in ("", "1") and found[3]:
            self.target = self.variables.expand(found[3].strip("'\""))[0]
        return found.end()

    def _operator(self, index: int, character: str) -> int:
        if character == "(" and self.array is None and self._opens_array():
            return index + 1
        self._end_word()
        if self.array is not None:
            if character == ")":
                self._end_array()
            return index + 1
        self._end_command()
        if character != "\n":
            return index + 1
        after = self._skip_heredocs(index + 1) if self.heredocs else index + 1
        self.target = None
        return after

    def _opens_array(self) -> bool:
        text = "".join(piece.text for piece in self.word.pieces)
        found = _ASSIGNED.fullmatch(text)
        if found is None:
            return False
        self.array, self.word = text, _Open()
        self._before, self.words = self.words, []
        return True

    def _end_array(self) -> None:
        found = _ASSIGNED.fullmatch(self.array or "")
        assert found
        self.variables.set_list(found[1], self.words, more=bool(found[2]))
        self.array, self.words = None, self._before

    def _skip_heredocs(self, index: int) -> int:
        for opened in self.heredocs:
            start, lines = index, []
            while index < len(self.text):
                end = self._line_end(index)
                line = self.text[index:end].rstrip("\r")
                index = end + 1
                line = line.lstrip("\t") if opened[1] else line
                if line == opened[3]:
                    break
                lines.append(line)
            self._keep(start, "\n".join(lines), raw=bool(opened[2]))
        self.heredocs = []
        return min(index, len(self.text))

    def _keep(self, start: int, body: str, *, raw: bool) -> None:
        """A heredoc as the file that it is written to, with variables unless its word is quoted."""
        if self.target is None:
            return
        where = self.places.at(start)
        text = body if raw else self.variables.expand(body)[0]
        self.files[self.target] = Places.of(
            text, where.file, where.line, where.column, self.places.indent
        )

    def _end_word(self) -> None:
        if self.word.start < 0:
            return
        where = self.places.at(self.word.start)
        self.words += joined(self.word.pieces, where, self.variables)
        self.count = len(self.words)
        self.word = _Open()

    def _end_command(self) -> None:
        self._end_word()
        words, self.words = self.words, []
        while words and words[0].text in _KEYWORDS:
            words = words[1:]
        assigned = [_ASSIGNED.match(word.text) for word in words]
        if words and (all(assigned) or words[0].text in _DECLARING):
            for word, found in zip(words, assigned, strict=True):
                if found:
                    self.variables.set_text(found[1], word, found.end(), more=bool(found[2]))
            if all(assigned) or words[0].text != "env":
                return
        if words and words[0].text == "tee":
            self.target = words[-1].text
        if words:
            self.found.append(Command(tuple(words), self.variables.texts(), None, self.files))
