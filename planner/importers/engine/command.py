"""The command line that runs a deployment: what ``planner import engine`` reads, the other way.

Words come from the tables that the importer reads, so that importing a command gives the
deployment back. What an engine has no option for is said beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.dtypes import DType
from planner.importers.engine.models import id_of
from planner.importers.engine.precision import METHODS, in_name, word_of
from planner.importers.engine.table import LINES, Field, Line, Option, normal, options_of, spelt
from planner.plan.layout import has_experts
from planner.serving.command import EngineCommand
from planner.spec.catalog import is_path
from planner.spec.question import Question
from planner.spec.types import BackendSpec, Scalar


def engine_command(question: Question) -> EngineCommand | None:
    """The command that starts a deployment's engine; None for a backend without a server."""
    line = LINES.get(question.backend.name)
    if line is None:
        return None
    return _Writer(question, line).command()


def sayable(backend: BackendSpec) -> frozenset[str]:
    """Flags that the engine's command line can say; those in files of options are left out."""
    line = LINES.get(backend.name)
    if line is None:
        return frozenset()
    known = options_of(line, backend)
    named = {name: spelt(spec) for name, spec in backend.flags.items()}
    return frozenset(
        name
        for name, word in named.items()
        if word and not isinstance(known[normal(word)].effect, Field)
    )


@dataclass
class _Writer:
    """Collects the words of one command."""

    question: Question
    line: Line
    words: list[str] = field(default_factory=list)
    unsaid: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    servers: int = 1

    def __post_init__(self) -> None:
        self.paths: dict[str, Option] = {}
        for option in self.line.options.values():
            if isinstance(option.effect, Field):
                self.paths.setdefault(option.effect.path, option)

    def command(self) -> EngineCommand:
        model = self._model()
        self._parallel()
        self._precision()
        self._memory()
        self._flags()
        deployment = self.question.deployment
        self._nodes(deployment.nodes or 1)
        if deployment.speculation:
            self.unsaid.append("speculation")
        version = deployment.backend.version
        return EngineCommand(
            (*self.line.begins, model, *self.words),
            self.servers,
            f"{self.line.package}=={version}" if version else None,
            tuple(self.unsaid),
            tuple(self.notes),
        )

    def _say(self, path: str, text: str | None = None) -> bool:
        """Add the option of a field; whether the engine has one."""
        option = self.paths.get(path)
        if option is None:
            return False
        self.words.append(f"--{option.name.replace('-', self.line.joint)}")
        if text is not None:
            self.words.append(text)
        return True

    def _model(self) -> str:
        """Its id; with the format in its name where no option says it."""
        named = self.question.deployment.model
        if is_path(named) and named.endswith(".json"):
            return str((self.question.deployment.origin.at("model").folder() / named).parent)
        name, wanted = id_of(self.question.model), self._narrowed()
        if wanted is None or "quantization" in self.paths:
            return name
        ending = in_name(wanted)
        if ending is None:
            return name
        self.notes.append(f"needs a checkpoint quantised so, called {name}{ending} or alike")
        return f"{name}{ending}"

    def _narrowed(self) -> tuple[DType, DType | None] | None:
        """Formats of weights and operands that the deployment asks for, narrower than 16 bit."""
        asked = self.question.deployment.precision
        if asked.weights is None or word_of(asked.weights) is not None:
            return None
        return asked.weights, asked.activations

    def _parallel(self) -> None:
        parallel = self.question.deployment.parallel
        tensor, data, expert = parallel.tensor, parallel.data, parallel.expert
        if data > 1 and expert > tensor:
            tensor, data, expert = self._wide(tensor, data, expert)
        elif data > 1 and (has_experts(self.question) or "parallel.data" not in self.paths):
            self.servers, data = data, 1
        sizes = {
            "tensor": tensor,
            "pipeline": parallel.pipeline,
            "data": data,
            "context": parallel.context,
            "prefill_context": parallel.prefill_context,
        }
        for name, size in sizes.items():
            if size > 1 and not self._say(f"parallel.{name}", str(size)):
                self.unsaid.append(f"parallel.{name}={size}")
        if expert > 1:
            self._experts(expert, tensor * data * parallel.prefill_context)

    def _nodes(self, nodes: int) -> None:
        """How one server is spread: each node's command differs from the others'."""
        each, data = nodes // self.servers, self.question.deployment.parallel.data
        if each <= 1:
            return
        if not (data > 1 and self._say("local_data", str(max(1, data // each)))):
            self._say("nodes", str(each))
        self.notes.append(f"runs on {each} nodes: {self.line.spreads}")

    def _wide(self, tensor: int, data: int, expert: int) -> tuple[int, int, int]:
        """Experts over all replicas: as ranks of one server."""
        if "expert_parallel" in self.paths:
            return tensor, data, expert
        spread = self.line.attention_in_all
        if not (spread and tensor > 1) and self._say("attention_dp"):
            self._say("parallel.expert", str(expert))
            return tensor * data, 1 if spread else data, 1
        self.unsaid.append(f"parallel.data={data} with experts over all replicas")
        return tensor, 1, 1

    def _experts(self, expert: int, ranks: int) -> None:
        if self._say("parallel.expert", str(expert)):
            return
        if expert != ranks or not self._say("expert_parallel"):
            self.unsaid.append(f"parallel.expert={expert}")

    def _precision(self) -> None:
        asked, model = self.question.deployment.precision, self.question.model
        for path, text in self._formats():
            if not self._say(path, text) and path == "dtype":
                self.notes.append(f"numbers as the checkpoint has them, planned as {text}")
        if asked.modules:
            self.unsaid.append("precision.modules")
        if model.quantization and (asked.weights or asked.activations):
            self.unsaid.append("precision: the checkpoint is quantised already")

    def _formats(self) -> Iterator[tuple[str, str]]:
        asked = self.question.deployment.precision
        operands = asked.activations
        if self._narrowed() is not None:
            yield from self._quantized(asked.weights, operands)
        elif operands and asked.weights != operands and (asked.weights or not word_of(operands)):
            self.unsaid.append(f"precision.activations={operands}")
        elif wide := word_of(asked.weights or operands):
            yield "dtype", wide
        if asked.kv_cache:
            cache = word_of(asked.kv_cache)
            word = self.line.fp8_cache if asked.kv_cache == "fp8" else cache or asked.kv_cache
            yield "precision.kv_cache", word

    def _quantized(
        self, weights: DType | None, operands: DType | None
    ) -> Iterator[tuple[str, str]]:
        if self.question.model.quantization:
            return
        method, wide = _method(weights, operands)
        if method is None:
            self.unsaid.append(f"precision.weights={weights}")
        elif "quantization" in self.paths:
            if method not in _AT_LOAD:
                self.notes.append(f"needs a checkpoint quantised as {method}")
            yield "quantization", method
        if wide:
            yield "dtype", wide

    def _memory(self) -> None:
        share = self.question.deployment.memory.utilization
        if share is not None:
            self._say("memory.utilization", f"{share:g}")

    def _flags(self) -> None:
        known = sayable(self.question.backend)
        for name, value in self.question.deployment.backend.flags.items():
            spec = self.question.backend.flags.get(name)
            word = spelt(spec) if spec else None
            if value is None:
                continue
            if spec is None or word is None or name not in known:
                where = spec.spelling if spec and spec.spelling else name
                self.unsaid.append(f"{where}: {_text(value)}")
            else:
                self._flag(word, value, default=spec.default[-1].value)

    def _flag(self, word: str, value: Scalar, default: Scalar) -> None:
        if "." in word:
            self.words.append(f"{word}={_text(value)}")
        elif value is True:
            self.words.append(word)
        elif value is not False:
            self.words += [word, _text(value)]
        elif self.line.negates:
            self.words.append(f"--no-{word.removeprefix('--')}")
        elif default:
            self.unsaid.append(f"{word}: false")


_AT_LOAD = ("fp8", "bitsandbytes")
"""Methods that quantise a 16-bit checkpoint as it is loaded. Source: vLLM's documentation of
quantisation, "Online quantization" and BitsAndBytes "in-flight"."""


def _method(weights: DType | None, operands: DType | None) -> tuple[str | None, str | None]:
    """The engines' word for formats, and that for the operands where another option says them."""
    for word, (held, multiplied) in METHODS.items():
        name = word.replace("-", "_")
        if held == weights and multiplied == operands:
            return name, None
        if held == weights and multiplied is None and word_of(operands):
            return name, word_of(operands)
    return None, None


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
