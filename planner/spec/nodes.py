"""YAML text to a tree of nodes with their places, from the parser's events.

The tree is built here and not by PyYAML's composer, which recurses in C as deep as the text asks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import yaml

from planner.errors import Fault, SpecError
from planner.spec.origin import Document

DEEPEST = 64
"""Levels of nesting a text may have."""

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(slots=True, eq=False)
class Node:
    """A scalar, list, mapping or alias. Lines and columns count from one."""

    kind: Literal["scalar", "list", "map", "alias"]
    line: int
    column: int
    tag: str | None = None
    text: str = ""
    """A scalar's text; an alias's name."""
    plain: bool = False
    """A scalar without quotes, or a list or mapping in block style."""
    children: list[Node] = field(default_factory=list)
    """A list's items; a mapping's keys and values in turn; an alias's target."""

    def pairs(self) -> list[tuple[Node, Node]]:
        """A mapping's keys and values."""
        return list(zip(self.children[::2], self.children[1::2], strict=True))


def parse(text: str, document: Document, faults: list[Fault]) -> Node | None:
    """The root node, or None when the text holds nothing.

    Unknown anchors go to ``faults`` (their alias node has no target). Raises SpecError, with
    ``faults`` in it, where the text cannot be read further: syntax, depth, a second document.
    """
    tree = _Tree(document, faults)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            tree.take(event)
    except yaml.MarkedYAMLError as error:
        tree.stop(syntax_fault(error, document))
    return tree.root


class _Tree:
    """Takes the parser's events, in order, and hangs each node where it belongs."""

    def __init__(self, document: Document, faults: list[Fault]) -> None:
        self.document = document
        self.faults = faults
        self.root: Node | None = None
        self._open: list[Node] = []
        self._anchors: dict[str, Node] = {}

    def stop(self, fault: Fault) -> NoReturn:
        raise SpecError([*self.faults, fault])

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.NodeEvent):
            self._hang(self._node(event), event.anchor)
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            message, hint = "a second document begins here", "one file holds one spec"
            self.stop(self._fault(event, message, hint))

    def _hang(self, node: Node, anchor: str | None) -> None:
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node
        if node.kind == "alias":
            return
        if anchor:
            self._anchors[anchor] = node
        if node.kind != "scalar":
            self._open.append(node)
            if len(self._open) > DEEPEST:
                message = f"nested deeper than {DEEPEST} levels"
                self.stop(self.document.fault(node.line, node.column, message))

    def _node(self, event: yaml.NodeEvent) -> Node:
        line, column = _place(event.start_mark)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style in (None, "")
            return Node("scalar", line, column, event.tag, event.value, plain)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, Node("alias", line, column, text=str(event.anchor)))
        kind: Literal["list", "map"] = (
            "list" if isinstance(event, yaml.SequenceStartEvent) else "map"
        )
        block = isinstance(event, yaml.CollectionStartEvent) and not event.flow_style
        tag = event.tag if isinstance(event, yaml.CollectionStartEvent) else None
        return Node(kind, line, column, tag, plain=block)

    def _alias(self, event: yaml.AliasEvent, node: Node) -> Node:
        target = self._anchors.get(node.text)
        if target:
            node.children.append(target)
        else:
            self.faults.append(
                self._fault(event, f"nothing before this is anchored as &{node.text}")
            )
        return node

    def _fault(self, event: yaml.Event, message: str, hint: str | None = None) -> Fault:
        return self.document.fault(*_place(event.start_mark), message, hint)


def _place(mark: Any) -> tuple[int, int]:
    """Line and column of a mark, from one. Some errors at a text's edge have none."""
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


_QUOTE = "put text that holds ': ', ' #', quotes or starts with a sign in quotes"
_INDENT = "entries of one mapping or list begin in the same column"
_SENTENCES: tuple[tuple[str, str, str | None], ...] = (
    (r"mapping values are not allowed", "a ':' where no key can stand", f"{_INDENT}; {_QUOTE}"),
    (r"expected ':'", "a key without its ':'", "write 'key: value'"),
    (r"maximum nesting", f"nested deeper than {DEEPEST} levels", None),
    (r"',' or '?\]", "a list in [ ] is not closed, or lacks a comma", None),
    (r"',' or '?\}", "a mapping in { } is not closed, or lacks a comma", None),
    (r"expected key|block mapping|expected <block end>", "this does not line up", _INDENT),
    (r"'-' indicator", "this does not line up", _INDENT),
    (
        r"sequence entries are not allowed",
        "a list cannot begin here",
        "begin it on a line of its own",
    ),
    (r"mapping keys are not allowed", "a '?' cannot stand here", _QUOTE),
    (r"escape", "an unknown escape in a text in double quotes", "write \\\\ for a backslash"),
    (r"second occurrence|duplicate anchor", "an anchor is given twice", None),
    (r"document start|document separator", "something follows the end of the spec", None),
    (r"tag", "a tag that cannot be read", "write the value without '!'"),
    (r"alphabetic or numeric", "a name must follow '&' or '*'", _QUOTE),
    (r"directive|incompatible YAML", "a line that begins with % is not read", None),
)


def syntax_fault(error: yaml.MarkedYAMLError, document: Document) -> Fault:
    """The parser's complaint as a sentence, at its place in the text."""
    line, column = _place(error.problem_mark or error.context_mark)
    context, problem = str(error.context or ""), str(error.problem or "")
    if "end of stream" in problem and "quoted scalar" in context and error.context_mark:
        message = "the quote that opens here is not closed"
        return document.fault(*_place(error.context_mark), message)
    if "cannot start any token" in problem:
        return _bad_start(document, line, column)
    for pattern, message, hint in _SENTENCES:
        if re.search(pattern, problem):
            return document.fault(line, column, message, hint)
    return document.fault(line, column, f"not readable as YAML: {problem or context}")


def _bad_start(document: Document, line: int, column: int) -> Fault:
    character = document.lines[line - 1][column - 1 : column]
    if character == "\t":
        return document.fault(line, column, "a tab cannot indent", "use spaces")
    message = f"no value can begin with {character!r}"
    return document.fault(line, column, message, "put the text in quotes")
