"""Who may do what: tokens for reading and for writing."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from planner.errors import UsageError

SHORTEST = 16
READ_VARIABLE, WRITE_VARIABLE = "PLANNER_READ_TOKEN", "PLANNER_WRITE_TOKEN"
_LARGEST_FILE_BYTES = 2**16


class Access(IntEnum):
    """What a request may do; writing includes reading."""

    NONE = 0
    READ = 1
    WRITE = 2


_WORDS = {"read": Access.READ, "write": Access.WRITE}


@dataclass(frozen=True)
class Tokens:
    """Digests of the tokens; the tokens themselves are not kept."""

    digests: tuple[tuple[bytes, Access], ...] = field(default=(), repr=False)

    @property
    def needed(self) -> bool:
        """Whether requests need a token at all."""
        return bool(self.digests)

    def access(self, offered: str) -> Access:
        """What a token allows. Takes the same time whichever token it is nearest to."""
        own, found = _digest(offered), Access.NONE
        for digest, access in self.digests:
            if hmac.compare_digest(own, digest):
                found = max(found, access)
        return found


def tokens_of(file: Path | None, environment: Mapping[str, str]) -> Tokens:
    """The tokens of a file and of PLANNER_READ_TOKEN and PLANNER_WRITE_TOKEN.

    A line of the file is ``read TOKEN`` or ``write TOKEN``; ``#`` begins a comment. Raises
    UsageError, without any token in it, for a file that cannot be read and for a token too short.
    """
    found = [] if file is None else _in_file(file)
    given = ((READ_VARIABLE, Access.READ), (WRITE_VARIABLE, Access.WRITE))
    for name, access in given:
        if environment.get(name):
            found.append((_checked(environment[name].strip(), name), access))
    return Tokens(tuple((_digest(token), access) for token, access in found))


def _in_file(file: Path) -> list[tuple[str, Access]]:
    try:
        if file.stat().st_size > _LARGEST_FILE_BYTES:
            raise UsageError(f"{file} is too large for a file of tokens")
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise UsageError(f"{file} cannot be read: {reason}", "name a file of tokens") from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != len(_WORDS) or words[0] not in _WORDS:
            hint = "write 'read TOKEN' or 'write TOKEN'"
            raise UsageError(f"{file}:{number}: this is no token", hint)
        found.append((_checked(words[1], f"{file}:{number}"), _WORDS[words[0]]))
    if not found:
        raise UsageError(f"{file} holds no token", "write 'read TOKEN' or 'write TOKEN'")
    return found


def _checked(token: str, place: str) -> str:
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        hint = "as from `openssl rand -hex 32`"
        raise UsageError(f"{place}: a token is {SHORTEST} plain characters or more", hint)
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
