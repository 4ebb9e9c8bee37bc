"""Which commands of a text start an engine, and what around them says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.importers.engine.dockerfile import docker_commands, is_dockerfile
from planner.importers.engine.manifest import is_manifest, manifest_commands
from planner.importers.engine.shell import commands
from planner.importers.engine.words import Command, Places, Word


@dataclass(frozen=True)
class Start:
    """An engine's command line, without the words that only start it."""

    engine: str
    """Name of the backend in the catalogue."""
    verb: str
    """As in ``vllm serve``."""
    words: tuple[Word, ...]
    at: Word
    """The first word of it."""
    environment: Mapping[str, str]
    version: str | None = None
    files: Mapping[str, Places] = field(default_factory=dict)
    """Files that the text around it writes."""


_MODULES = {
    "vllm.entrypoints.openai.api_server": ("vllm", "serve"),
    "vllm.entrypoints.api_server": ("vllm", "serve"),
    "sglang.launch_server": ("sglang", "serve"),
    "sglang.bench_one_batch": ("sglang", "bench one-batch"),
    "sglang.bench_offline_throughput": ("sglang", "bench offline"),
    "tensorrt_llm.commands.serve": ("tensorrt-llm", "serve"),
}
_BENCHES = ("latency", "throughput", "serve")
_IMAGE = re.compile(r"(?:^|/)vllm-openai(?:-\w+)?(?::|@|$)")
_VERSIONED = re.compile(
    r"(?:vllm-openai|sglang|tensorrt-llm)[\w/-]*:v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:post|rc)\d+)?)"
)
_INSTALLED = re.compile(r"(vllm|sglang|tensorrt[-_]llm)(?:\[[\w,]*\])?==v?([\w.]+)")


def starts(text: str, file: str, given: Mapping[str, str]) -> tuple[Start, ...]:
    """Every start of an engine in a text: shell, Dockerfile, Kubernetes manifest or compose file.

    Raises SpecError for a manifest that is no YAML.
    """
    read: Sequence[Command]
    if is_dockerfile(text, file):
        read = docker_commands(text, file, given)
    elif is_manifest(text, file):
        read = manifest_commands(text, file, given)
    else:
        read = commands(Places.of(text, file), given)
    found: list[Start] = []
    installed: dict[str, str] = {}
    for command in read:
        for word in command.words:
            if pinned := _INSTALLED.search(word.text):
                installed[pinned[1].replace("_", "-")] = pinned[2]
        if start := _start(command, installed):
            found.append(start)
    return tuple(found)


def _start(command: Command, installed: Mapping[str, str]) -> Start | None:
    for index, word in enumerate(command.words):
        for recognise in (_by_module, _by_program, _by_image):
            found = recognise(command.words, index)
            if found:
                engine, verb, rest = found
                environment = {**command.environment, **_set_before(command.words[:index])}
                images = [command.image or "", *(each.text for each in command.words[: index + 1])]
                version = _version(images) or installed.get(engine)
                words = command.words[rest:]
                return Start(engine, verb, words, word, environment, version, command.files)
    if command.image and _IMAGE.search(command.image) and _serves(command.words):
        first = command.words[0]
        version, around = _version([command.image]), command.environment
        return Start("vllm", "serve", command.words, first, around, version, command.files)
    return None


def _serves(words: Sequence[Word]) -> bool:
    """Whether words are arguments of the image's own server: options, or a model's id."""
    text = words[0].text if words else ""
    return text.startswith("-") or ("/" in text and not text.startswith("/"))


_Found = tuple[str, str, int] | None
_Recogniser = Callable[[tuple[Word, ...], int], _Found]


def _by_module(words: tuple[Word, ...], index: int) -> _Found:
    text = words[index].text
    module = text.removeprefix("-m") if text.startswith("-m") and len(text) > len("-m") else None
    at = index
    if text == "-m" and index + 1 < len(words):
        module, at = words[index + 1].text, index + 1
    known = _MODULES.get(module or "")
    return (*known, at + 1) if known else None


def _by_program(words: tuple[Word, ...], index: int) -> _Found:
    name = words[index].text.rsplit("/", 1)[-1]
    following = [word.text for word in words[index + 1 : index + 3]]
    if name == "vllm" and following[:1] == ["serve"]:
        return "vllm", "serve", index + 2
    if name == "vllm" and following[:1] == ["bench"] and following[1:] and following[1] in _BENCHES:
        return "vllm", f"bench {following[1]}", index + 3
    if name == "sglang" and following[:1] == ["serve"]:
        return "sglang", "serve", index + 2
    if name == "trtllm-serve":
        return "tensorrt-llm", "serve", index + (2 if following[:1] == ["serve"] else 1)
    return None


def _by_image(words: tuple[Word, ...], index: int) -> _Found:
    """``docker run … vllm/vllm-openai:v0.10.2 --model …``: the image starts the server."""
    runs = any(word.text in ("docker", "podman", "nerdctl") for word in words[:index])
    if not runs or not _IMAGE.search(words[index].text):
        return None
    return ("vllm", "serve", index + 1) if _serves(words[index + 1 :]) else None


def _set_before(words: Sequence[Word]) -> dict[str, str]:
    pairs = (re.fullmatch(r"(?:-e|--env=)?([A-Z][A-Z0-9_]*)=(.*)", word.text) for word in words)
    return {found[1]: found[2] for found in pairs if found}


def _version(images: Sequence[str]) -> str | None:
    found = (_VERSIONED.search(image) for image in images)
    return next((match[1] for match in found if match), None)
