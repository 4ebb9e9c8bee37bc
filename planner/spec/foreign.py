"""YAML that others wrote: manifests of several documents, with things a spec may not have."""

from __future__ import annotations

import re
from typing import Any

from planner.errors import Fault
from planner.spec.nodes import parse
from planner.spec.origin import Document
from planner.spec.source import Construction, opened

_SEPARATOR = re.compile(r"---(\s.*)?")


def documents(raw: bytes | str, file: str) -> list[tuple[Any, Document]]:
    """Plain data of each document of a YAML text, with the place of every path.

    Tags, merge keys, duplicate keys and odd scalars are passed over, for they are not ours to
    judge. Raises SpecError where the text cannot be read: syntax, size, depth, alias bombs.
    """
    lines = opened(raw, file)[1].lines
    found = []
    for start, end in _spans(lines):
        faults: list[Fault] = []
        document = Document(file, lines)
        # empty lines in place of the documents before keep the numbers of the lines
        text = "\n".join(["" for _ in lines[:start]] + list(lines[start:end])) + "\n"
        root = parse(text, document, faults)
        if root is not None:
            built = Construction(document, faults)
            data = built.value(root, ())
            built.mark((), root, root)
            found.append((data, Document(file, lines, built.marks)))
    return found


def _spans(lines: tuple[str, ...]) -> list[tuple[int, int]]:
    """Line numbers, from nought, between the separators."""
    cuts = [index for index, line in enumerate(lines) if _SEPARATOR.fullmatch(line)]
    starts = [0, *(cut + 1 for cut in cuts)]
    return list(zip(starts, [*cuts, len(lines)], strict=True))
