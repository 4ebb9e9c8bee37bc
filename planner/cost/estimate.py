"""How long a kernel takes: which model prices it, with whose constants, and how sure that is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from planner.cost.constants import Constants
from planner.cost.estimator import Estimate, Kernel, roofline_s
from planner.cost.experts import CHAINS, Routed, routed
from planner.cost.fitted import Asked, Fitted
from planner.cost.kernels import attention_decode, collective, elementwise, gemm
from planner.cost.kernels.attention_decode import dispatched
from planner.cost.kernels.collective import CollectiveShape
from planner.cost.kernels.elementwise import ElementwiseShape
from planner.cost.kernels.gemm import GemmShape
from planner.cost.kernels.types import KernelModel
from planner.cost.latent import latent_shapes
from planner.cost.network import Network, between_s, within
from planner.cost.parts import (
    Part,
    attention_shape,
    first_message_s,
    is_main,
    moved_bytes,
    sums_rows_of_ranks,
    together,
    walked_pieces,
    walked_rows,
)
from planner.cost.products import Product, as_run, is_product, product, unfitted
from planner.cost.recurrent import recurrent_part
from planner.cost.types import Device
from planner.dtypes import bytes_per_element
from planner.graph.types import Node
from planner.num import Number, any_nonzero, as_float, is_array, maximum, where
from planner.ops.attention import AttentionScores, AttentionValues
from planner.ops.collective import Collective, Send
from planner.ops.dims import ROWS
from planner.ops.latent_attention import LatentScores, LatentValues
from planner.ops.linear import Linear
from planner.ops.moe import Moe
from planner.ops.types import Site, static

Places: TypeAlias = tuple[tuple[Node, Site], ...]
"""Nodes, with what their formulas may look at."""


@dataclass(frozen=True, eq=False)
class CalibratedEstimator:
    """Kernel models with fitted constants, from the nearest GPU that was measured.

    Weights and KV are read cold. A group is priced by its main kernel (a GEMM, attention, a
    collective); what it moves beyond that is added at the rate of streaming kernels. Attention
    tables time the write of K and V with the attention, so a write that runs as a kernel of its
    own is taken off.
    """

    device: Device
    constants: Constants
    network: Network | None = None
    """What joins the nodes, where there are several."""
    _seen: dict[Any, tuple[float, Fitted]] = field(default_factory=dict)
    _parts: dict[tuple[str | int | None, ...], tuple[Places, Part]] = field(default_factory=dict)
    _rows: dict[int, tuple[Site, Number]] = field(default_factory=dict)
    _heard: list[Asked] | None = None

    def asked(self, kernel: Kernel) -> tuple[Asked, ...]:
        """All that an estimate of a kernel asks of kernel models, in order."""
        heard: list[Asked] = []
        dataclasses.replace(self, _heard=heard, _parts={}).estimate(kernel)
        return tuple(heard)

    def estimate(self, kernel: Kernel) -> Estimate:
        """Sum of the group's main kernels, and of the bytes they do not account for."""
        parts = [part for part in self._mains(kernel) if part is not None]
        if not parts:
            family = next(filter(None, (unfitted(node) for node, _ in kernel.nodes)), None)
            return self._unfitted(kernel, family) if family else self._streamed(kernel)
        stream_s, stream = self._stream(kernel, sum(part.moved_bytes for part in parts))
        started_s = 0.0 if sums_rows_of_ranks(kernel.nodes) else stream.floor_s
        main_s, exposed_s = together(parts, kernel.tile if kernel.overlaps else None)
        core_s = main_s + stream_s - started_s
        main = next((part for part in parts if part.family == "attention"), parts[0])
        return Estimate(
            maximum(core_s, roofline_s(kernel.work)),
            main.floor_s + first_message_s(main, parts, stream.floor_s),
            main.fitted.evidence,
            main.family,
            *main.fitted.interval(core_s),
            borrowed=main.fitted.borrowed,
            chain=main.family == CHAINS,
            exposed_s=exposed_s,
            call_s=max(part.call_s for part in parts),
        )

    def _unfitted(self, kernel: Kernel, family: str) -> Estimate:
        """No model of these kernels is fitted: streaming at the measured rate, or the roofline."""
        stream_s, stream = self._stream(kernel, 0.0)
        core_s = maximum(stream_s - stream.floor_s, roofline_s(kernel.work))
        return Estimate(core_s, stream.floor_s, "datasheet", family)

    def _streamed(self, kernel: Kernel) -> Estimate:
        """A kernel that does nothing but stream."""
        stream_s, stream = self._stream(kernel, 0.0)
        low, high = stream.interval(stream_s)
        core_s, floor_s = maximum(0.0, stream_s - stream.floor_s), stream.floor_s
        evidence, borrowed = stream.evidence, stream.borrowed
        return Estimate(core_s, floor_s, evidence, "elementwise", low, high, borrowed=borrowed)

    def _mains(self, kernel: Kernel) -> Iterator[Part | None]:
        linears: dict[tuple[str, ...], list[tuple[Node, Site]]] = {}
        mains = [(node, site) for node, site in kernel.nodes if is_main(node.op)]
        projections = tuple(each for each in mains if isinstance(each[0].op, Linear))
        joined = projections if any(isinstance(node.op, Moe) for node, _ in mains) else ()
        for node, site in mains:
            if not isinstance(node.op, Linear):
                yield self._main(node, site, kernel, joined)
            elif not joined:
                key = (*node.inputs, node.matmul_dtype, node.parameters[0].dtype)
                linears.setdefault(key, []).append((node, site))
        for merged in linears.values():
            yield self._once(tuple(merged), self._linear)

    def _main(self, node: Node, site: Site, kernel: Kernel, joined: Places) -> Part | None:
        """A node that is no projection, by its model; experts with the projections they took in."""
        if found := routed(node, site, kernel.name, self.constants, joined):
            return self._routed(found, overlaps=kernel.overlaps)
        if is_product(type(node.op)):
            return self._once(((node, site),), lambda nodes: self._gemm(product(*nodes[0])))
        if isinstance(node.op, AttentionScores):
            return self._attention(node.op, site, kernel)
        if isinstance(node.op, LatentScores):
            return self._latent_attention(node.op, site, kernel)
        if isinstance(node.op, Collective | Send):
            return self._once(((node, site),), self._message, kernel.name, int(kernel.overlaps))
        return recurrent_part(node.op, site, kernel.name, self.constants, self._time)

    def _once(self, nodes: Places, make: Callable[..., Part], *how: str | int | None) -> Part:
        """A part that depends on its nodes and a kernel's name, for all groups that hold them."""
        key = (*how, *(id(site) for _, site in nodes))
        # the sites are kept beside the part, so that their ids are no others'
        if key not in self._parts:
            self._parts[key] = nodes, make(nodes, *how)
        return self._parts[key][1]

    def _linear(self, merged: Places) -> Part:
        """Projections of one input as one GEMM. Operands narrower than 16 bit come in quantised."""
        node, site = merged[0]
        depth = static(site.inputs[0].shape[-1])
        features = sum(op.features for each, _ in merged if isinstance(op := each.op, Linear))
        weights = sum(each.parameters[0].bytes for each, _ in merged)
        width = weights / (depth * features)
        rows = as_float(site.load.elements(site.outputs[0].shape[:-1]))
        asked = Product(rows, depth, features, node.matmul_dtype, width)
        return self._gemm(as_run(asked, node, site))

    def _latent_attention(self, op: LatentScores, site: Site, kernel: Kernel) -> Part | None:
        """Latent attention as one kernel, in the form that the scores are in."""
        if not any(isinstance(node.op, LatentValues) for node, _ in kernel.nodes):
            return None
        heads, dtype = op.shape, site.formats.kv_cache
        model, shapes = latent_shapes(heads, site.load)
        fitted = self.constants.latent_attention(model, kernel.name, dtype)
        core_s = sum(self._time(model, fitted, shape) - fitted.floor_s for shape in shapes)
        tokens = as_float(site.load.size(ROWS[heads.phase]))
        if not kernel.writes_cache:
            core_s = core_s - self._write_s(tokens, heads.token_bytes(dtype))
        return Part("attention", core_s, fitted.floor_s, as_float(kernel.attended_bytes), fitted)

    def _routed(self, found: Routed, *, overlaps: bool) -> Part:
        fitted, family, moved, hops_s = found.fitted, found.model.family, found.moved_bytes, 0.0
        if found.span:
            time_s, fitted = self._exchanged(fitted, found.shape, found.span)
            hops_s = self._hops_s(fitted, found.shape, found.span) if overlaps else 0.0
        else:
            time_s = self._time(found.model, fitted, found.shape)
        return Part(family, time_s - fitted.floor_s, fitted.floor_s, moved, fitted, hops_s)

    def _gemm(self, ask: Product) -> Part:
        rows, depth, features = ask.rows, ask.depth, ask.features
        shape = GemmShape(rows, depth, features, weight_bytes=ask.weight_bytes, quantised=True)
        fitted = self.constants.gemm(ask.dtype, ask.weights, ask.most_share)
        time_s = self._time(gemm.MODEL, fitted, shape)
        moved = depth * features * ask.weight_bytes
        moved += rows * depth * bytes_per_element(ask.dtype) + rows * features * 2
        # the floor of a quantised table holds the launch of its quantiser, here a kernel of its own
        floor_s = min(fitted.floor_s, self.constants.gemm("bf16").floor_s)
        return Part("gemm", time_s - fitted.floor_s, floor_s, moved, fitted, call_s=ask.call_s)

    def _attention(self, op: AttentionScores, site: Site, kernel: Kernel) -> Part | None:
        """Attention as one kernel, where the values are in the group too."""
        if not any(isinstance(node.op, AttentionValues) for node, _ in kernel.nodes):
            return None
        heads, dtype = op.shape, site.formats.kv_cache
        core_s: Number = 0.0
        floor_s = 0.0
        fitted: Fitted | None = None
        for group in heads.groups(site.load):
            if not any_nonzero(group.new_tokens * group.count):
                continue
            model, shape = attention_shape(heads, group, dtype)
            name = kernel.name
            if model is attention_decode.MODEL:
                name = dispatched(kernel.decodes or name, heads.heads, heads.kv_heads)
            fitted = self.constants.attention(model.family, name, dtype)
            time_s = self._time(model, fitted, shape)
            core_s = core_s + (time_s - fitted.floor_s)
            floor_s = max(floor_s, fitted.floor_s)
        if fitted is None:
            return None
        core_s = core_s + (floor_s - fitted.floor_s)
        moved = as_float(kernel.attended_bytes)
        if heads.cached and not kernel.writes_cache:
            tokens = as_float(site.load.tokens)
            core_s = core_s - self._write_s(tokens, heads.kv_bytes_per_token(dtype))
        return Part("attention", core_s, fitted.floor_s, moved, fitted)

    def _write_s(self, tokens: Number, each_bytes: float) -> Number:
        """What the write of the new K and V takes as a kernel of its own."""
        size = tokens * each_bytes
        shape = ElementwiseShape(2 * size, size, tokens)
        return self._time(elementwise.MODEL, self.constants.elementwise(), shape, taken_off=True)

    def _message(self, nodes: Places, name: str | None, overlaps: int) -> Part:
        op, site = nodes[0][0].op, nodes[0][1]
        if isinstance(op, Send):
            return self._send(op, site)
        assert isinstance(op, Collective)
        fitted = self.constants.collective(op.library, name)
        shape = CollectiveShape(as_float(op.message_bytes(site)), float(op.ranks))
        time_s, fitted = self._exchanged(fitted, shape, op.span())
        hops_s = self._hops_s(fitted, shape, op.span()) if overlaps else 0.0
        moved, core_s = moved_bytes(site), time_s - fitted.floor_s
        return Part("collective", core_s, fitted.floor_s, moved, fitted, hops_s)

    def _hops_s(self, fitted: Fitted, shape: CollectiveShape, span: float) -> Number:
        """What an exchange of nothing takes beyond its start."""
        empty = CollectiveShape(0.0, shape.ranks)
        return self._exchanged(fitted, empty, span)[0] - fitted.floor_s

    def _send(self, op: Send, site: Site) -> Part:
        """As an all-gather over two ranks, in which each sends half of the result."""
        fitted = self.constants.collective("all_gather")
        size = op.tensors * as_float(site.inputs[0].bytes(site.load))
        time_s = self._time(collective.MODEL, fitted, CollectiveShape(2 * size, 2.0))
        if self.network and self.network.parts_stages:
            time_s = fitted.floor_s + self.network.send_s(size)
            fitted = dataclasses.replace(fitted, evidence="datasheet")
        moved = moved_bytes(site)
        return Part("collective", time_s - fitted.floor_s, fitted.floor_s, moved, fitted)

    def _exchanged(
        self, fitted: Fitted, shape: CollectiveShape, span: float
    ) -> tuple[Number, Fitted]:
        """A collective over ``span`` GPUs side by side. Nobody measured those that leave a node."""
        nodes = self.network.nodes(span) if self.network else 1
        if nodes == 1 or self.network is None:
            return self._time(collective.MODEL, fitted, shape), fitted
        inside = within(shape, nodes, fitted.variant)
        time_s: Number = fitted.floor_s
        if inside.ranks > 1:
            time_s = self._time(collective.MODEL, fitted, inside)
        beyond_s = between_s(shape, nodes, fitted.variant, self.network)
        return time_s + beyond_s, dataclasses.replace(fitted, evidence="datasheet")

    def _stream(self, kernel: Kernel, accounted: Number) -> tuple[Number, Fitted]:
        """Bytes that no main kernel accounts for, at the rate of streaming kernels."""
        fitted = self.constants.elementwise()
        size = maximum(0.0, as_float(kernel.work.hbm_bytes) - accounted)
        if not any_nonzero(size):
            return fitted.floor_s, fitted
        rows = maximum(1.0, self._walked_rows(kernel.nodes))
        time_s = self._time(elementwise.MODEL, fitted, ElementwiseShape(size / 2, size / 2, rows))
        return where(size > 0, time_s, fitted.floor_s), fitted

    def _walked_rows(self, nodes: Places) -> Number:
        """As `walked_rows`, found once for all groups that begin with a node."""
        site = nodes[0][1]
        if id(site) not in self._rows:
            self._rows[id(site)] = site, walked_rows(nodes[:1])
        return maximum(self._rows[id(site)][1], *walked_pieces(nodes[1:]))

    def _time(
        self, model: KernelModel[Any], fitted: Fitted, shape: Any, *, taken_off: bool = False
    ) -> Number:
        if is_array(*vars(shape).values()):
            return model.time_s(fitted.variant, shape, self.device, fitted.values)
        share = fitted.values.get("matrix_share")
        key = (model.family, fitted.variant, fitted.source, share, shape)
        if key not in self._seen:
            time_s = model.time_s(fitted.variant, shape, self.device, fitted.values)
            self._seen[key] = (float(time_s), fitted)
        time_s = self._seen[key][0]
        if self._heard is not None:
            self._heard.append(Asked(model, fitted, shape, time_s, taken_off))
        return time_s
