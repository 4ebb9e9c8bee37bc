"""What a GPU keeps on the chip: the room that a fused kernel has for its tiles.

By compute capability, from the CUDA C++ Programming Guide's table of technical specifications (7.x
to 12.x): 64 Ki registers of 32 bit a multiprocessor from 5.0 on; a block may use all shared memory
of its multiprocessor less 1 KiB, which the system takes from 8.0 on; clusters of up to 8 blocks,
which reach each other's shared memory, from 9.0 on (16 where a kernel gives up portability: not
counted). Tensor memory, 512 columns of 128 lanes of 32 bit, holds the accumulators of capability
10.x and 11.0 (PTX ISA, tcgen05). AMD's: the CDNA2, 3 and 4 ISA guides, 512 vector registers of 64
lanes on each of 4 SIMDs. A multiprocessor takes 64 bytes a clock from the L2 at most (Jia et al.
2018, arXiv:1804.06826, table 3.1; the A100's white paper has 5,120 bytes a clock over all 108).
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.spec.types import GpuSpec

KIB = 1024
_REGISTERS_BYTES = 64 * KIB * 4
_TENSOR_BYTES = 512 * 128 * 4
_CDNA_REGISTERS_BYTES = 4 * 512 * 64 * 4
_RESERVED_BYTES = 1 * KIB
_RESERVING, _CLUSTERED = 8.0, 9.0
_TENSOR_FROM, _TENSOR_BELOW = 10.0, 12.0
_PORTABLE_CLUSTER = 8
_FILL_BYTES = 64


@dataclass(frozen=True)
class Chip:
    """On-chip memory, for one multiprocessor where nothing else is said."""

    multiprocessors: int
    registers_bytes: float
    accumulator_bytes: float
    """For sums of matrix products: half of the registers, the other half being operands and
    addresses (CUTLASS's largest tile, 128 × 256 in FP32, is that half); or the tensor memory."""
    shared_bytes: float
    """That one block may use."""
    cluster: int = 1
    """Blocks, each on a multiprocessor of its own, that reach each other's shared memory."""

    fill_bytes_per_s: float | None = None
    """What all multiprocessors together take from the L2 at most; None where no clock is known."""

    def clusters(self, blocks: int) -> int:
        """How many clusters of so many blocks run at once."""
        return max(1, self.multiprocessors // blocks)


def chip_of(gpu: GpuSpec) -> Chip | None:
    """The chip that a gpu spec describes; None where too little of it is known."""
    if gpu.multiprocessors is None or gpu.shared_memory is None:
        return None
    count, shared = int(gpu.multiprocessors.value), gpu.shared_memory.value
    if gpu.capability is None:
        if not gpu.architecture.startswith("cdna"):
            return None
        return Chip(count, _CDNA_REGISTERS_BYTES, _CDNA_REGISTERS_BYTES / 2, shared)
    tensor = _TENSOR_FROM <= gpu.capability < _TENSOR_BELOW
    return Chip(
        count,
        _REGISTERS_BYTES,
        _TENSOR_BYTES if tensor else _REGISTERS_BYTES / 2,
        shared - _RESERVED_BYTES * (gpu.capability >= _RESERVING),
        _PORTABLE_CLUSTER if gpu.capability >= _CLUSTERED else 1,
        _FILL_BYTES * count * gpu.clock.value if gpu.clock else None,
    )
