"""Which CUDA Graph mode a load runs in, by the engine's own rules, and what the others would be."""

from __future__ import annotations

from planner.capture.sizes import expand, padded
from planner.capture.types import MODE_WORDS, MODES, Decision, FixedCosts, Mode, ModeChoice
from planner.cost.adjust import Adjustments
from planner.cost.engine import Engine
from planner.spec.conditions import first, holds
from planner.spec.expr import whole
from planner.spec.types import CaptureSizes, TimeChoice


def decide(engine: Engine, tokens: int | None) -> Decision:
    """The mode that the engine's flags select for a step of ``tokens`` new tokens.

    ``tokens`` is None for a graph that is no LLM: its shapes are captured as they are.
    """
    capture = engine.spec.capture
    rule = first(capture.sizes, engine.facts)
    sizes = expand(rule, engine.whole_flags) if rule and tokens is not None else ()
    choices = tuple(_choice(mode, engine, rule, sizes, tokens) for mode in MODES)
    selected = first(capture.modes, engine.facts)
    wanted: Mode = selected.mode if selected else "none"
    mode, notes = _fall_back(wanted, choices)
    return Decision(mode, choices, sizes, notes)


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


def _choice(
    mode: Mode,
    engine: Engine,
    rule: CaptureSizes | None,
    sizes: tuple[int, ...],
    tokens: int | None,
) -> ModeChoice:
    if mode == "none":
        return ModeChoice(mode, available=True)
    offered = [m for m in engine.spec.capture.available if m.mode == mode]
    if not any(holds(m.when, engine.facts) for m in offered):
        return ModeChoice(mode, available=False, reason=f"{engine.spec.title} cannot run it here")
    if rule is None or tokens is None:
        return ModeChoice(mode, available=True)
    cap = whole(rule.full_cap, engine.whole_flags) if mode == "full" and rule.full_cap else None
    usable = tuple(size for size in sizes if cap is None or size <= cap)
    size = padded(tokens, usable)
    if size is None:
        reason = f"{tokens} tokens exceed the largest captured size {usable[-1] if usable else 0}"
        return ModeChoice(mode, available=False, reason=reason)
    pads = first(engine.spec.capture.pads, engine.facts)
    if size != tokens and not (pads and pads.value):
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
