"""The load of a step: groups of like sequences, or bound dims of a graph that is no LLM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from planner.num import Number, ceil_div, is_array, maximum, minimum, where
from planner.ops.dims import Dim, Pairs, Phase, PhasePairs, Shape, Span, SpanPairs, Symbol
from planner.ops.moe_load import UNIFORM, Routing


@dataclass(frozen=True)
class SequenceGroup:
    """``count`` like sequences, each adding ``new_tokens`` and attending to ``kv_tokens``.

    ``kv_tokens`` includes the new tokens. All three may be NumPy arrays of one shape; arrays of
    floats, where products could pass the 2⁶³ that NumPy's integers end at.
    """

    count: Number
    new_tokens: Number
    kv_tokens: Number
    verified: bool = False
    """Whether the new tokens beyond the first are drafts to be verified: it counts as decoding."""

    def causal_pairs(self, window: int | None) -> Number:
        """Query-key pairs one sequence attends to.

        Query i of n sees the prior keys and i of the new: without a window n(k−n) + n(n+1)/2;
        with one, no query sees more than ``window`` keys.
        """
        n, prior = self.new_tokens, self.kv_tokens - self.new_tokens
        if window is None:
            return n * prior + n * (n + 1) / 2
        growing = minimum(maximum(window - prior, 0), n)
        return growing * prior + growing * (growing + 1) / 2 + (n - growing) * window

    def rectangle_pairs(self, window: int | None) -> Number:
        """Pairs an untiled kernel computes before the mask throws some away."""
        return self.new_tokens * self.keys_read(window)

    def tiled_pairs(self, window: int | None, tile: int) -> Number:
        """Pairs a tiled causal kernel computes: tiles crossed by the diagonal are computed whole.

        Each query is charged up to the last query of its tile of ``tile`` rows. With a window the
        lower diagonal crosses tiles too; its waste is bounded by the same amount and left out.
        """
        n = self.new_tokens
        full = n // tile
        rest = n - full * tile
        waste = full * tile * (tile - 1) / 2 + rest * (rest - 1) / 2
        return minimum(self.causal_pairs(window) + waste, n * self.kv_tokens)

    def keys_read(self, window: int | None) -> Number:
        """Distinct keys one sequence's queries touch."""
        if window is None:
            return self.kv_tokens
        return minimum(self.kv_tokens, window + self.new_tokens - 1)

    def tile_keys(self, window: int | None, tile: int) -> Number:
        """Keys that the tile rows of a causal kernel read, summed over the rows of one sequence.

        Row t of ``tile`` queries reads up to its last query, min(prior + t·tile, window + tile − 1)
        keys; the last row may be shorter.
        """
        n, prior = self.new_tokens, self.kv_tokens - self.new_tokens
        full = n // tile
        rest = n - full * tile
        if window is None:
            rows = full * prior + tile * full * (full + 1) / 2
            return rows + where(rest > 0, prior + n, 0)
        most = window + tile - 1
        growing = minimum(maximum((most - prior) // tile, 0), full)
        rows = growing * prior + tile * growing * (growing + 1) / 2 + (full - growing) * most
        return rows + where(rest > 0, minimum(prior + n, window + rest - 1), 0)

    def chunked(self, chunk: int) -> tuple[SequenceGroup, ...]:
        """The sequences that chunked-local attention makes of these: one per chunk it touches.

        A query at position p sees the keys from p − p mod ``chunk`` on. So the new tokens fall into
        the rest of the chunk they begin in, whole chunks, and the start of the one they end in.
        Source: vLLM computes it so, as a batch of shorter sequences
        (`vllm/v1/attention/backends/utils.py`, make_local_attention_virtual_batches).
        """
        n, prior = self.new_tokens, self.kv_tokens - self.new_tokens
        begun = prior % chunk
        if not is_array(n) and n == 1:
            return (SequenceGroup(self.count, n, begun + 1),)
        first = minimum(n, chunk - begun)
        whole, last = (n - first) // chunk, (n - first) % chunk
        return (
            SequenceGroup(self.count, first, begun + first),
            SequenceGroup(
                self.count * whole, where(whole > 0, chunk, 0), where(whole > 0, chunk, 0)
            ),
            SequenceGroup(self.count * where(last > 0, 1, 0), last, last),
        )

    def query_tiles(self, tile: int) -> Number:
        """Tile rows that cover the new tokens of one sequence."""
        return ceil_div(self.new_tokens, tile)

    @property
    def past_tokens(self) -> Number:
        """Keys of one sequence that were cached before this step."""
        return self.kv_tokens - self.new_tokens

    def of_span(self, span: Span, ranks: int) -> SequenceGroup:
        """The group as a kernel sees it that attends to part of the keys, of which ``ranks`` ranks
        hold as many each. Sequences without such keys are left out.
        """
        if span == "new":
            return replace(self, kv_tokens=self.new_tokens)
        if span == "past":
            count = where(self.past_tokens > 0, self.count, 0)
            return replace(self, count=count, kv_tokens=self.past_tokens / ranks)
        return self

    def of_phase(self, phase: Phase) -> SequenceGroup:
        """The group where it is in that phase; no sequences where it is in the other."""
        if phase == "all":
            return self
        decodes = self.verified or self.new_tokens == 1
        yes, no = (self.count, 0) if phase == "decode" else (0, self.count)
        return replace(self, count=where(decodes, yes, no))


@dataclass(frozen=True)
class Load:
    """What one step has to do: like sequences in groups, or dims of a graph that is no LLM."""

    groups: tuple[SequenceGroup, ...] = ()
    shapes: Mapping[str, Number] = field(default_factory=dict)
    padding_tokens: Number = 0
    """Rows that a captured graph computes for nothing; attention skips them."""
    encoder: Load | None = None
    """What an encoder in front of the model has to do in the same step, if anything."""
    routing: Routing = UNIFORM
    """How routers spread the tokens over experts."""
    logits: Number | None = None
    """Rows that get logits, where the groups are pieces of sequences and don't say."""

    @cached_property
    def tokens(self) -> Number:
        """New tokens of the step, over all sequences, padding included."""
        return self.padding_tokens + sum(group.count * group.new_tokens for group in self.groups)

    @cached_property
    def sequences(self) -> Number:
        """Sequences in the step."""
        return sum(group.count for group in self.groups)

    @cached_property
    def _phases(self) -> dict[Phase, tuple[SequenceGroup, ...]]:
        return {}

    def of_phase(self, phase: Phase) -> tuple[SequenceGroup, ...]:
        """Its groups in one phase; those of the other are left with no sequences.

        A step's structure may depend on which phases occur in it, as latent attention's does; which
        group is in which may differ from element to element of an array.
        """
        if phase not in self._phases:
            self._phases[phase] = tuple(group.of_phase(phase) for group in self.groups)
        return self._phases[phase]

    def of_span(self, span: Span, ranks: int, chunk: int | None) -> tuple[SequenceGroup, ...]:
        """The groups, cut at chunks, that attend to part of the keys (`SequenceGroup.of_span`)."""
        found = self.within(chunk)
        return found if span == "all" else tuple(group.of_span(span, ranks) for group in found)

    def _of_phases(self, symbol: str) -> Number:
        """New tokens of a phase, or keys that its sequences attend to; padding is in neither.

        ``context_tokens`` are all tokens of a step in which any sequence has keys from before it;
        ``prefix_keys`` those keys of prompts.
        """
        if symbol == "context_tokens":
            return where(self.continued > 0, self.tokens, 0)
        if symbol == "prefix_keys":
            return self._of_phases("prefill_keys") - self._of_phases("prefill_tokens")
        phase, _, what = symbol.partition("_")
        groups = self.of_phase("decode" if phase == "decode" else "prefill")
        if what == "tokens":
            return sum(g.count * g.new_tokens for g in groups)
        return sum(g.count * g.kv_tokens for g in groups)

    @cached_property
    def sampled(self) -> Number:
        """Rows that get logits: the last token of a sequence, or every one that is verified."""
        if self.logits is not None:
            return self.logits
        return sum(g.count * (g.new_tokens if g.verified else 1) for g in self.groups)

    @cached_property
    def continued(self) -> Number:
        """Sequences that began in an earlier step, and have a state or a cache from there."""
        return sum(g.count * where(g.kv_tokens > g.new_tokens, 1, 0) for g in self.groups)

    def within(self, chunk: int | None) -> tuple[SequenceGroup, ...]:
        """The groups, cut where chunks of ``chunk`` keys end; as they are where there are none."""
        if chunk is None:
            return self.groups
        return tuple(piece for group in self.groups for piece in group.chunked(chunk))

    def size(self, symbol: Symbol) -> Number:
        """The value of a load symbol. Raises KeyError for one the load doesn't bind."""
        if isinstance(symbol, PhasePairs):
            groups = self.of_phase(symbol.phase)
            return sum(g.count * g.rectangle_pairs(symbol.window) for g in groups)
        if isinstance(symbol, SpanPairs):
            groups = self.of_span(symbol.span, symbol.ranks, symbol.chunk)
            return sum(g.count * g.rectangle_pairs(symbol.window) for g in groups)
        if isinstance(symbol, Pairs):
            groups = self.within(symbol.chunk)
            return sum(g.count * g.rectangle_pairs(symbol.window) for g in groups)
        if symbol in self.shapes:
            return self.shapes[symbol]
        if self.groups and symbol in LOAD_SYMBOLS:
            if symbol in PHASE_SYMBOLS:
                return self._of_phases(symbol)
            return self.tokens if symbol == "tokens" else self.sampled
        raise KeyError(symbol)

    def dim(self, dim: Dim) -> Number:
        """The value of a dim under this load."""
        numerator, denominator = dim.ratio
        value: Number = numerator
        for symbol in dim.symbols:
            value = value * self.size(symbol)
        return value if denominator == 1 else value / denominator

    def elements(self, shape: Shape) -> Number:
        """Elements of a tensor of that shape."""
        count: Number = 1
        for dim in shape:
            count = count * self.dim(dim)
        return count


PHASE_SYMBOLS = (
    "decode_tokens",
    "prefill_tokens",
    "prefill_keys",
    "context_tokens",
    "prefix_keys",
)
"""Dims of operators that run for decoding sequences alone, or for prompts alone."""
LOAD_SYMBOLS = ("tokens", "sequences", *PHASE_SYMBOLS)
"""Dims that the step of an LLM binds; a graph of another kind names its own in ``step.shapes``."""
