"""The deployment that a command line asks for, with a gap where the line cannot say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.errors import Fault
from planner.importers.engine import models
from planner.importers.engine.config_file import Beside, contents, options_in
from planner.importers.engine.draft import Fields, Row
from planner.importers.engine.find import Start
from planner.importers.engine.given import Given, read
from planner.importers.engine.table import LINES, Included, Line, options_of
from planner.importers.engine.words import Places, Refused, Word
from planner.spec.catalog import Catalog
from planner.spec.deployment import GAP

_BENCH = {"batch": 8, "input": 32, "output": 128}
"""What `vllm bench latency` runs by default. Source: vLLM 0.26 `benchmarks/latency.py`."""


@dataclass(frozen=True)
class Engine:
    """A command line as a deployment."""

    data: dict[str, Any]
    comments: dict[str, list[str]]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def deployment(
    start: Start,
    catalog: Catalog,
    gpu: str | None,
    step: Any = None,
    beside: Beside | None = None,
) -> Engine:
    """The deployment of a command line. ``gpu`` and ``step`` are what it cannot say.

    Files of options that it names are those that the text around it writes, else ``beside``.
    Raises Refused with every value that cannot be read, each at its place.
    """
    backend = catalog.find("backend", start.engine)
    line = LINES.get(start.engine)
    assert line is not None
    known = options_of(line, backend)
    fields = Fields(known)
    for given in _all(start, line, known, fields, beside):
        fields.take(given)
    if "model" not in fields.values and not fields.faults:
        hint = "as in --model ORG/NAME"
        fields.faults.append(Fault(start.at.where, f"{start.verb} names no model", hint))
    if fields.faults:
        raise Refused(fields.faults)
    return _Spec(start, line, fields, catalog).made(gpu, step)


def _all(
    start: Start,
    line: Line,
    known: Mapping[str, Any],
    fields: Fields,
    beside: Beside | None,
) -> list[Given]:
    """Options of the environment, of the line, whose first word that is none is the model, and of
    files that it names.
    """
    found: list[Given] = []
    for name, value in start.environment.items():
        option = line.variables.get(name)
        if option is not None and option in known:
            word = Word(name, start.at.where)
            found.append(Given(word, name, (Word(value, start.at.where),), known[option]))
        elif name.startswith(line.prefixes):
            row = Row(start.at.where, name, value, "unknown", "environment is not read")
            fields.rows.append(row)
    model_given, included = False, list[Given]()
    for given in read(start.words, known):
        if not given.name and not model_given:
            model_given = True
            named = Word("model", given.word.where)
            found.append(Given(named, "model", given.values, known["model"]))
        elif text := _included(given, start, beside):
            included += options_in(text, known)
        else:
            found.append(given)
    return [*found, *included] if line.file_wins else [*included, *found]


def _included(given: Given, start: Start, beside: Beside | None) -> Places | None:
    """The file of options that an option names, if it is one and the file is known."""
    if given.option is None or not isinstance(given.option.effect, Included) or given.missing:
        return None
    return contents(given.text, start.files, beside)


class _Spec:
    """Makes the deployment of what was read."""

    def __init__(self, start: Start, line: Line, fields: Fields, catalog: Catalog) -> None:
        self.start = start
        self.line = line
        self.values = fields.values
        self.fields = fields
        self.notes: list[str] = []
        self.comments: dict[str, list[str]] = {}
        self.model = models.find(str(self.values["model"]), catalog)

    def made(self, gpu: str | None, step: Any) -> Engine:
        data: dict[str, Any] = {"name": self._name(), "model": self._model()}
        data["gpu"] = gpu or GAP
        if gpu is None:
            self.comments["gpu"] = ["A command line does not say what it runs on."]
        for part in (self._parallel(), self._precision(), self._backend(), self._memory()):
            data |= part
        data |= self._nodes(data.get("parallel", {}).get("data", 1))
        data |= self._question(step)
        rows = [row for row in self.fields.rows if row.kind in ("unknown", "unmodelled")]
        left = [
            f"{row.where}: {row.word} {row.value}".rstrip() + f": {row.becomes}" for row in rows
        ]
        head = f"Made by `planner import engine` from {self.start.at.where} ({self.start.engine})"
        self.comments[""] = [head, *self.notes, *left]
        return Engine(data, self.comments, tuple(self.fields.rows), tuple(self.notes))

    def _name(self) -> str:
        word = str(self.values.get("name") or self.values["model"]).rstrip("/").rsplit("/", 1)[-1]
        return "".join(c for c in word if c.isprintable())[:200] or "deployment"

    def _model(self) -> str:
        said = f"model: {self.values['model']}"
        mapped = f"model: {self.model.name}"
        rows = self.fields.rows
        rows[:] = [replace(row, becomes=mapped) if row.becomes == said else row for row in rows]
        if self.model.note:
            self.notes.append(self.model.note)
        if not self.model.known:
            self.comments["model"] = [
                "Not in the catalogue. Write model: ./config.json, or `planner import hf` it."
            ]
        return self.model.name

    def _parallel(self) -> dict[str, Any]:
        tensor = self.values.get("parallel.tensor", 1)
        data = self.values.get("parallel.data", 1)
        expert = self.values.get("parallel.expert", 1)
        if self.values.get("expert_parallel"):
            expert = tensor * data * self.values.get("parallel.prefill_context", 1)
        if self.values.get("attention_dp") and self.line.attention_in_all:
            data = tensor
        if self.values.get("attention_dp") and data > 1 and tensor % data == 0:
            self.notes.append(
                f"attention runs {data} times in the {tensor} ranks: tensor {tensor // data} "
                f"× data {data}"
            )
            tensor //= data
        if expert == 1 and data > 1 and self._cuts_experts():
            expert = tensor * data
            self.notes.append(
                f"experts are cut over the {expert} ranks of all replicas; they are planned as "
                "shared out whole, which is as many bytes a rank"
            )
        sizes = {
            "tensor": tensor,
            "pipeline": self.values.get("parallel.pipeline", 1),
            "expert": expert,
            "data": data,
            "context": self.values.get("parallel.context", 1),
            "prefill_context": self.values.get("parallel.prefill_context", 1),
        }
        given = {name: size for name, size in sizes.items() if size != 1}
        return {"parallel": given} if given else {}

    def _nodes(self, data: int) -> dict[str, Any]:
        """Machines, told as such or by the replicas that each holds."""
        local = self.values.get("local_data") or data
        nodes = max(self.values.get("nodes", 1), data // local if data % local == 0 else 1)
        if nodes == 1:
            return {}
        self.comments["network"] = [
            "Assumed, since a command line does not say it: a card of 400 Gb/s for each GPU."
        ]
        return {"nodes": nodes, "network": {"bandwidth": "50 GB/s", "latency": "10 us"}}

    def _cuts_experts(self) -> bool:
        """Whether data replicas hold parts of one set of experts, none being shared out."""
        cuts = self.line.replicas_cut_experts or bool(self.values.get("attention_dp"))
        return cuts and self.model.experts

    def _precision(self) -> dict[str, Any]:
        method = self.values.get("quantization") or self.model.formats
        if self.model.quantized:
            # the catalogue's own words say more than a flag does, less than another's name
            method = self.model.formats
        dtype, cache = self.values.get("dtype"), self.values.get("precision.kv_cache")
        weights, operands = method or (dtype, dtype)
        if method and operands is None:
            operands = dtype
        scales = "tensor" if self.model.scaled and weights == operands == "fp8" else None
        found = {"weights": weights, "activations": operands, "scales": scales, "kv_cache": cache}
        given = {name: value for name, value in found.items() if value}
        return {"precision": given} if given else {}

    def _backend(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.start.engine}
        if self.start.version:
            found["version"] = re.sub(r"\.?(?:post|rc).*$", "", self.start.version)
        if self.fields.flags:
            found["flags"] = self.fields.flags
        return {"backend": found}

    def _memory(self) -> dict[str, Any]:
        share = self.values.get("memory.utilization")
        return {} if share is None else {"memory": {"utilization": share}}

    def _question(self, step: Any) -> dict[str, Any]:
        sizes = {name: self.values.get(f"workload.{name}") for name in _BENCH}
        if step is not None:
            return {"step": step}
        if self.start.verb == "bench latency":
            return {"workload": {name: sizes[name] or _BENCH[name] for name in _BENCH}}
        if all(sizes.values()):
            return {"workload": sizes}
        self.comments["(step)"] = [
            "What is asked of it, as in",
            "step: {decode: {batch: 16, context: 4096}}",
        ]
        return {}
