"""One call of a torch.export graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planner.importers.exported.types import Step, Value, Weight


@dataclass(frozen=True)
class Call:
    """One call of a torch.export graph."""

    node: Any
    target: str
    """As in ``aten.linear``."""
    values: dict[str, Value]
    weights: dict[str, Weight]
    parts: dict[str, list[str]]
    """Names of the tensors of each call that returns several."""

    def argument(self, position: int, name: str = "", default: Any = None) -> Any:
        """An argument by place or by name."""
        if position < len(self.node.args):
            return self.node.args[position]
        return self.node.kwargs.get(name, default)

    def tensor(self, position: int, name: str = "") -> str:
        """The name of a tensor argument; numbers are stored as tensors of one element."""
        return self.named(self.argument(position, name))

    def named(self, value: Any) -> str:
        """The name of a tensor, or of a number that becomes one."""
        if value is None:
            return ""
        if hasattr(value, "name"):
            return str(value.name)
        name = f"number_{value}"
        held = (float(value),) if isinstance(value, int | float) else None
        self.weights.setdefault(name, Weight(name, (), "fp32", parameter=False, numbers=held))
        return name

    def step(self, op: str, *inputs: str, **attributes: Any) -> Step:
        """The step it becomes."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        return Step(self.node.name, op, inputs, (self.node.name,), attributes)

    def tensors(self) -> list[str]:
        """Names of all tensors among the arguments, those in lists too."""
        lists = [arg if isinstance(arg, list | tuple) else [arg] for arg in self.node.args]
        return [each.name for held in lists for each in held if hasattr(each, "name")]
