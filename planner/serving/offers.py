"""Hardware that can be rented: GPUs one by one, or instances with all that is in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.errors import UsageError
from planner.num import ceil_div
from planner.registry import nearest
from planner.spec.types import PricesSpec


@dataclass(frozen=True)
class Offer:
    """One kind of hardware to rent."""

    name: str
    """The provider's name of an instance, or the GPU's."""
    gpu: str
    count: int = 1
    """GPUs that are rented together."""
    price_per_hour: float | None = None
    """Of them all, in USD; None where nothing tells it."""
    whole: bool = False
    """Whether it is one machine: its GPUs share a link, those of two need a network."""

    def node(self, joined: int) -> int:
        """GPUs of one machine, of a kind whose link joins so many at most."""
        return self.count if self.whole else joined

    def fills(self, each: int, most_gpus: int, node: int) -> tuple[int, ...]:
        """Numbers of replicas of ``each`` GPUs that leave no rented place empty, up to so many
        GPUs. None where a replica fits neither a node nor some nodes exactly.
        """
        if each > most_gpus or (each > node and each % node):
            return ()
        step = max(1, self.count // each)
        units = self.units(each, step)
        most = most_gpus // (units * self.count)
        return tuple(step * times for times in range(1, most + 1))

    def units(self, each: int, replicas: int) -> int:
        """How often it is rented for so many replicas of ``each`` GPUs."""
        if self.count >= each:
            return int(ceil_div(replicas, self.count // each))
        return int(ceil_div(replicas * each, self.count))

    def cost(self, units: int) -> float | None:
        """USD an hour of so many; None without a price."""
        return None if self.price_per_hour is None else self.price_per_hour * units


def offers(prices: PricesSpec, gpus: Iterable[str] = ()) -> tuple[Offer, ...]:
    """All hardware in a file of prices, or that with the GPUs named.

    Raises UsageError for a GPU without a price, and where the file has no prices.
    """
    single = [Offer(name, name, 1, figure.value) for name, figure in sorted(prices.gpus.items())]
    whole = [
        Offer(name, each.gpu, each.count, each.price.value, whole=True)
        for name, each in sorted(prices.instances.items())
    ]
    found = (*single, *whole)
    known = sorted({offer.gpu for offer in found})
    if not found:
        raise UsageError(f"{prices.name} has neither gpus nor instances")
    wanted = tuple(gpus) or known
    for name in wanted:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(known)}"
            raise UsageError(f"{prices.name} has no price of {name[:80]!r}", hint)
    return tuple(offer for offer in found if offer.gpu in wanted)
