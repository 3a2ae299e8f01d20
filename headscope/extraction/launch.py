"""Which of how many processes this is, as `torchrun`, `accelerate launch` or MPI say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from headscope.errors import HeadscopeError

# torchrun and accelerate; Intel MPI and MPICH; Open MPI; MVAPICH.
_RANK = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
_SIZE = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
_LOCAL = (
    "LOCAL_RANK",
    "MPI_LOCALRANKID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
)


@dataclass(frozen=True)
class Launch:
    """Which of how many processes this is, as the launcher says.

    Attributes:
        rank: 0-based number of this process; rank 0 prints and writes.
        size: number of processes.
        local_rank: 0-based number among those of the same machine.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def leads(self) -> bool:
        """Whether this process prints and writes."""
        return self.rank == 0


def launch() -> Launch:
    """What the environment says; a single process where no launcher has named a meeting place.

    Raises:
        HeadscopeError: numbers that make no sense.
    """
    if not os.environ.get("MASTER_ADDR") or not os.environ.get("MASTER_PORT"):
        return Launch()
    size, rank = _number(_SIZE, 1), _number(_RANK, 0)
    if not 0 <= rank < size:
        raise HeadscopeError(
            f"the launcher's environment says rank {rank} of {size}; expected ranks from 0 to "
            f"{size - 1}"
        )
    return Launch(rank, size, _number(_LOCAL, rank)) if size > 1 else Launch()


def _number(names: Sequence[str], default: int) -> int:
    name = next((name for name in names if os.environ.get(name)), None)
    if name is None:
        return default
    try:
        return int(os.environ[name])
    except ValueError:
        raise HeadscopeError(
            f"environment variable {name} is '{os.environ[name]}'; expected a whole number, as "
            "torchrun sets it"
        ) from None
