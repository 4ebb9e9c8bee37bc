"""Which CUDA Graph mode a load runs in, by the engine's own rules, and what the others would be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from planner.capture.sizes import expand, padded
from planner.capture.types import MODE_WORDS, MODES, Decision, FixedCosts, Mode, ModeChoice
from planner.cost.adjust import Adjustments
from planner.cost.engine import Engine
from planner.num import Number
from planner.spec.conditions import first, holds
from planner.spec.expr import whole
from planner.spec.types import CaptureSizes, TimeChoice


def decide(engine: Engine, tokens: int | None) -> Decision:
    """The mode that the engine's flags select for a step of ``tokens`` new tokens.

    ``tokens`` is None for a graph that is no LLM: its shapes are captured as they are.
    """
    found = offers(engine) if tokens is not None else _without_sizes(engine)
    choices = tuple(_choice(offer, engine, tokens) for offer in found.modes)
    mode, notes = _fall_back(found.wanted, choices)
    return Decision(mode, choices, found.sizes, notes)


def decide_all(engine: Engine, tokens: Number) -> tuple[Number, Number]:
    """As `decide` for an array of tokens: the number of each mode in `MODES`, and its padding."""
    import numpy as np

    found = offers(engine)
    mode, padding = np.zeros(tokens.shape, dtype=np.int64), np.zeros(tokens.shape)
    for number, offer in enumerate(found.modes[: MODES.index(found.wanted) + 1]):
        sizes = np.array(offer.sizes if offer.sizes is not None else (), dtype=np.float64)
        captured = tokens
        if offer.sizes is not None:
            captured = np.append(sizes, np.inf)[np.searchsorted(sizes, tokens)]
        runs = (captured < np.inf) & (offer.pads | (captured == tokens)) & offer.offered
        mode, padding = np.where(runs, number, mode), np.where(runs, captured - tokens, padding)
    return mode, padding


@dataclass(frozen=True)
class Offer:
    """What an engine offers in one mode, whatever the load."""

    mode: Mode
    offered: bool
    sizes: tuple[int, ...] | None
    """Captured sizes, ascending; None where a load is captured as it is."""
    pads: bool
    most: int | None = None
    """The largest size that the mode takes, where it is not that of the list."""


@dataclass(frozen=True)
class Offers:
    """What an engine offers in every mode, the mode that its flags want, and all its sizes."""

    modes: tuple[Offer, ...]
    wanted: Mode
    sizes: tuple[int, ...]
    """In tokens."""
    unit: int = 1
    """Tokens that one of a list's own counts is: those of a sequence, where it counts sequences."""
    multiple: int = 1
    """What sizes are rounded up to a multiple of."""


@lru_cache(maxsize=512)
def offers(engine: Engine) -> Offers:
    """What an engine captures, by its rules and flags."""
    return _offers(engine, first(engine.spec.capture.sizes, engine.facts))


def _without_sizes(engine: Engine) -> Offers:
    """The same for a graph that is no LLM."""
    return _offers(engine, None)


def _offers(engine: Engine, rule: CaptureSizes | None) -> Offers:
    capture = engine.spec.capture
    unit, multiple = _unit(engine, rule), _multiple(engine)
    listed = expand(rule, engine.whole_flags, multiple) if rule else ()
    sizes = tuple(size * unit for size in listed)
    selected, pads = first(capture.modes, engine.facts), first(capture.pads, engine.facts)
    found = []
    for mode in MODES:
        named = [each for each in capture.available if each.mode == mode]
        offered = mode == "none" or any(holds(each.when, engine.facts) for each in named)
        sized = rule is not None and offered and mode != "none"
        most = _full_cap(engine, rule, unit) if mode == "full" else None
        usable = tuple(size for size in sizes if most is None or size <= most)
        found.append(
            Offer(mode, offered, usable if sized else None, bool(pads and pads.value), most)
        )
    wanted = selected.mode if selected else "none"
    return Offers(tuple(found), wanted, sizes, unit, max(unit, multiple))


def _unit(engine: Engine, rule: CaptureSizes | None) -> int:
    """Tokens that one of a rule's own counts is; a draft's steps bring one token a sequence."""
    alone = rule is None or not rule.per_sequence or bool(engine.facts["drafts"])
    return 1 if alone else engine.verified


def _multiple(engine: Engine) -> int:
    rounds = first(engine.spec.capture.rounds, engine.facts)
    return engine.verified if rounds and rounds.value else 1


def _full_cap(engine: Engine, rule: CaptureSizes | None, unit: int) -> int | None:
    return unit * whole(rule.full_cap, engine.whole_flags) if rule and rule.full_cap else None


def _fall_back(wanted: Mode, choices: tuple[ModeChoice, ...]) -> tuple[Mode, tuple[str, ...]]:
    """The wanted mode, or the best one below it that this load can run in, and why."""
    for choice in reversed(choices[: MODES.index(wanted) + 1]):
        if choice.available:
            if choice.mode == wanted:
                return wanted, ()
            reason = choices[MODES.index(wanted)].reason
            run, meant = MODE_WORDS[choice.mode], MODE_WORDS[wanted]
            return choice.mode, (f"this step runs {run}, not {meant}: {reason}",)
    return "none", ()


def _choice(offer: Offer, engine: Engine, tokens: int | None) -> ModeChoice:
    mode, usable = offer.mode, offer.sizes
    if not offer.offered:
        return ModeChoice(mode, available=False, reason=f"{engine.spec.title} cannot run it here")
    if usable is None or tokens is None:
        return ModeChoice(mode, available=True)
    size = padded(tokens, usable)
    if size is None:
        reason = f"{tokens} tokens exceed the largest captured size {usable[-1] if usable else 0}"
        return ModeChoice(mode, available=False, reason=reason)
    if size != tokens and not offer.pads:
        reason = f"a batch of {tokens} is not captured and padding is off"
        return ModeChoice(mode, available=False, reason=reason)
    return ModeChoice(mode, available=True, captured_size=size, padding_tokens=size - tokens)


_DOCUMENTED = ("launch", "replay", "kernel", "graph_node")


def fixed_costs(
    engine: Engine, launch_s: float | None = None, adjusted: Adjustments | None = None
) -> FixedCosts:
    """The fixed costs of an engine: documented ones, or those measured on the machine.

    ``launch_s`` is what the deployment says of its own host, and counts before either.
    """
    found = {name: _time(getattr(engine.spec.host, name), engine) for name in _DOCUMENTED}
    if adjusted is not None:
        found |= {name: (s, adjusted.sources[name]) for name, s in adjusted.host_s.items()}
    if launch_s is not None:
        found["launch"] = launch_s, "the deployment's host.launch"
    times = {f"{name}_s": value for name, (value, _) in found.items()}
    return FixedCosts(**times, sources=tuple((name, said) for name, (_, said) in found.items()))


def _time(choices: tuple[TimeChoice, ...], engine: Engine) -> tuple[float, str]:
    choice = first(choices, engine.facts) or choices[-1]
    return choice.value, choice.source or choice.note or "catalogue"
