"""How a compiler of loops makes kernels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.spec.kinds.base import Spec


class LoopRule(Spec):
    """Which results a compiler of loops stores; the others are part of each kernel they feed."""

    operands: int = Field(
        ge=1,
        description="A result that is read more than once is stored if it is made of more operands;"
        " below, each kernel that reads it computes it again",
    )
    most: int | None = Field(
        None, ge=1, description="The same of a result that is read once; none has no limit"
    )
    operations: int | None = Field(
        None,
        ge=1,
        description="A result whose loops have more operations is stored, loads and constants"
        " counted, and those of all that is computed in the same loops; none has no limit",
    )
    unrolled: int = Field(
        1, ge=1, description="Reductions of fewer elements are written out as elementwise loops"
    )
    stored: tuple[str, ...] = Field(
        (),
        description="Operators whose results are stored wherever they are read more than once, or"
        " by something larger; also what is computed of them in the same loops. With any, other"
        " elementwise operators that compute exponentials or the like are among them",
    )
    views: tuple[str, ...] = Field(
        (),
        description="Operators that are but views of what they read",
    )
    joins: bool = Field(
        True,
        description="Whether tensors put side by side are computed where they are read; if not,"
        " each part is written by a kernel of its own",
    )
    nests: bool = Field(
        False,
        description="Whether loops that have outer loops alone in common are joined, and loops"
        " over the same elements nested in another way are not",
    )
    sums: Literal["call", "apart"] | None = Field(
        None,
        description="What becomes of a sum behind a product of matrices: `call`, it is part of the"
        " library's call; `apart`, only where others than elementwise loops read it, and FP32"
        " biases are added by such loops too; none: biases in calls, other sums in loops",
    )
