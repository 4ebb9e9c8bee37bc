"""What an estimate of a kernel is put together from."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost.experts import ROUTED
from planner.cost.fitted import Fitted
from planner.cost.kernels import attention_decode, attention_prefill
from planner.cost.kernels.attention import BOTH_WAYS, AttentionShape
from planner.cost.kernels.types import KernelModel
from planner.cost.products import is_product
from planner.cost.tile import Tile
from planner.dtypes import bytes_per_element
from planner.graph.types import Node
from planner.num import Number, as_float, is_one, maximum
from planner.ops.attention import AttentionScores
from planner.ops.collective import Collective, Send
from planner.ops.heads import Heads
from planner.ops.latent_attention import LatentScores
from planner.ops.linear import Linear
from planner.ops.recurrent import CausalConv1d, LinearAttention, Stateful
from planner.ops.types import OpClass, Operator, SequenceGroup, Site
from planner.records import dataclass


@dataclass(frozen=True)
class Part:
    """The time of one main kernel of a group."""

    family: str
    core_s: Number
    floor_s: float
    moved_bytes: Number
    """What it reads and writes itself; the group may move more."""
    fitted: Fitted
    hops_s: Number = 0.0
    """Of a collective whose tiles are computed meanwhile: what a message takes that is empty."""
    call_s: float = 0.0
    """Host time of its call outside graphs; 0 where it is that of any launch."""


def together(parts: list[Part], tile: Tile | None) -> tuple[Number, Number]:
    """Time of a group's main kernels, and what of it is between ranks alone.

    With a tile parts travel while others are computed. Messages on their way hide behind nothing.
    """
    link = [part for part in parts if part.family == "collective"]
    hops_s = sum(part.hops_s for part in link)
    link_s = sum(part.core_s for part in link) - hops_s
    chip_s = sum(part.core_s for part in parts if part.family != "collective")
    exposed_s = hops_s + link_s - (tile.hidden_s(link_s, chip_s) if tile else 0.0)
    return chip_s + exposed_s, exposed_s


def first_message_s(main: Part, parts: list[Part], started_s: float) -> float:
    """What ranks take to find each other, in a kernel whose start is another part's: a collective's
    own start beyond that of a kernel.
    """
    if main.family == "collective":
        return 0.0
    starts = [part.floor_s for part in parts if part.family == "collective"]
    return max(0.0, max(starts, default=0.0) - started_s)


def sums_rows_of_ranks(nodes: Sequence[tuple[Node, Site]]) -> bool:
    """Whether a kernel sums over ranks and then reduces rows of the sums: a norm begins when every
    rank's part has come, so that its own start is not hidden.

    Measured of FlashInfer's all-reduce with norm: 8.7 us over eight B200 (sgl-project/sglang pull
    7621), 10, 16 and 30 us for 32, 64 and 128 rows of 8,192 over two H100 (vllm-project/vllm pull
    22086), 7.0 us for 6 rows of 6,144 with a graph of its own (flagos-ai/FlagGems-vllm pull 773).
    TensorRT-LLM's all-reduce alone is 5.2; 5.0, 7.3, 11.8; 3.9 us by its constants. With the start
    of a norm, 2 us, all of these are still too short, those over two H100 by up to a half.
    """
    classes = [node.op.op_class for node, _ in nodes]
    if OpClass.COLLECTIVE not in classes:
        return False
    return OpClass.ROW_REDUCTION in classes[classes.index(OpClass.COLLECTIVE) :]


UNMEASURED_CACHES = frozenset({"nvfp4"})
"""Formats of the cache that no table has: their bytes, at the rates of FP8."""


def attention_shape(
    heads: Heads, group: SequenceGroup, kv_cache: str
) -> tuple[KernelModel[AttentionShape], AttentionShape]:
    """The model that prices attention of a group of sequences, and what it is asked."""
    decodes = group.verified or is_one(group.new_tokens)
    return attention_decode.MODEL if decodes else attention_prefill.MODEL, AttentionShape(
        as_float(group.count),
        1.0 if decodes else as_float(group.new_tokens),
        _priced_keys(heads, group, decodes=decodes),
        # kernels lay the queries of tokens to be verified beside those of the heads
        heads.heads * (int(group.new_tokens) if group.verified else 1),
        heads.kv_heads,
        heads.head_dim,
        window=heads.window or 0,
        kv_bytes=bytes_per_element(kv_cache) if kv_cache in UNMEASURED_CACHES else 0.0,
    )


def _priced_keys(heads: Heads, group: SequenceGroup, *, decodes: bool) -> Number:
    """Keys of causal attention that has as many pairs: n·p = n·(k − n) + n²/2 for k = p + n/2."""
    if heads.span == "past":
        return as_float(group.kv_tokens) + (0.0 if decodes else as_float(group.new_tokens) / 2)
    return as_float(group.kv_tokens * (1 if heads.causal else BOTH_WAYS))


def walked_pieces(nodes: Sequence[tuple[Node, Site]]) -> list[Number]:
    """The pieces in which a streaming kernel walks each state."""
    return [as_float(node.op.pieces(site)) for node, site in nodes if isinstance(node.op, Stateful)]


def walked_rows(nodes: Sequence[tuple[Node, Site]]) -> Number:
    """Rows a streaming kernel walks: of its first node's input or output, whichever has more.

    A look-up reads one list of ids and writes a row for each; sampling reads rows and writes ids.
    A state is walked in pieces.
    """
    pieces = walked_pieces(nodes)
    node, site = nodes[0]
    if node.op.op_class == OpClass.CACHE:
        return maximum(as_float(site.load.tokens), *pieces, 0.0)
    shapes = [site.inputs[0].shape, *(tensor.shape for tensor in site.outputs)]
    return maximum(*(as_float(site.load.elements(shape[:-1])) for shape in shapes), *pieces)


_MAIN = (
    *ROUTED,
    Linear,
    AttentionScores,
    LatentScores,
    Collective,
    Send,
    CausalConv1d,
    LinearAttention,
)
_mains: dict[type[Operator], bool] = {}


def is_main(op: Operator) -> bool:
    """Whether a kernel model prices an operator; all others stream. Remembered by its class."""
    kind = type(op)
    if kind not in _mains:
        _mains[kind] = issubclass(kind, _MAIN) or is_product(kind)
    return _mains[kind]


def moved_bytes(site: Site) -> Number:
    """HBM bytes of a node's tensors, read and written."""
    return as_float(sum(t.bytes(site.load) for t in (*site.inputs, *site.outputs)))
