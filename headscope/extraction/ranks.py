"""Many processes as one: ranks share out the batches of a pass and add up what they saw.

Processes that `torchrun`, `accelerate launch` or MPI started find each other by the launcher's
environment. Through its key-value store they tell what they are about to do, that they are done, or
that they failed; the sums travel once everybody is done, so that nobody waits for one who is gone.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from headscope.errors import HeadscopeError
from headscope.extraction.launch import Launch, launch

# torch is imported where it is used: the command line tells errors here and may not need torch.
if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Store

    from headscope.extraction.encoder import Encoder
    from headscope.extraction.observers import Observer

PAUSE = 0.02
"""Seconds between two looks at whether the others have come."""

LOOK_EVERY = 0.5
"""Seconds after which a rank that computes looks whether another one has failed."""

GRACE = 5.0
"""Seconds that a rank which gives up waits for the others to do so too."""

JOIN_WITHIN = timedelta(minutes=10)
"""How long a rank waits for the meeting place; rank 0 may have to load a large model first."""

EVEN_LENGTH = 150
"""Tokens of a sentence at which its maps cost as much as all else; measured, demo model, CPU."""


class Ranks:
    """This process among those that share out passes.

    Args:
        launch: which of how many.

    Attributes:
        rank, size: likewise.
    """

    def __init__(self, launch: Launch) -> None:
        """Reaches the store of the launcher, or waits for rank 0 to open one."""
        self.rank, self.size = launch.rank, launch.size
        self._store = _meeting_place(launch)
        self._n_passes = 0
        self._looked = 0.0
        self._added: WeakValueDictionary[int, Observer] = WeakValueDictionary()

    def dealt(self) -> Callable[[int, int], bool]:
        """Is told the shape of each batch in turn, and says whether it is this rank's.

        A batch goes to the rank that has least to do so far; all ranks come to the same answer.
        """
        loads = [0.0] * self.size

        def takes(n_sentences: int, length: int) -> bool:
            rank = loads.index(min(loads))
            loads[rank] += n_sentences * length * (1 + length / EVEN_LENGTH)
            return rank == self.rank

        return takes

    @contextmanager
    def one_pass(self, facts: Mapping[str, object]) -> Iterator[None]:
        """A pass that all ranks begin together; when one fails, all do.

        Raises:
            HeadscopeError: ranks with other facts, such as another file, or one that failed.
        """
        try:
            self._agree(facts)
            yield
        except BaseException as error:
            self.fail(str(error) if isinstance(error, HeadscopeError) else _told(error))
            raise
        finally:
            self._n_passes += 1

    def look(self) -> None:
        """Stops this rank when another has failed; asks once in a while, for it costs a message.

        Raises:
            HeadscopeError: what the other one said.
        """
        if time.monotonic() - self._looked > LOOK_EVERY:
            self._looked = time.monotonic()
            self._stop_with_others()

    def fail(self, message: str) -> None:
        """Lets the others know that this rank cannot go on, in this pass or before the next."""
        # Where the store is gone, so are those who could read it.
        with suppress(RuntimeError):
            self._store.compare_set(self._key("failure"), "", f"rank {self.rank}: {message}")

    def check(self, encoder: Encoder, observers: Sequence[Observer]) -> None:
        """Refuses observers that could not be added up after a long pass.

        Raises:
            HeadscopeError: one that no other process could be sent, or that was added up before.
        """
        for observer in observers:
            _packed([observer], encoder)
            if self._added.get(id(observer)) is observer:
                raise HeadscopeError(
                    f"{type(observer).__name__} holds a pass of all {self.size} ranks already, and "
                    "would be counted once a rank; make a new observer, and add the two with +"
                )

    def add_up(self, encoder: Encoder, observers: Sequence[Observer]) -> None:
        """Leaves in every observer, on every rank, what all ranks have seen.

        Rank 0 adds them up in the order of ranks, one at a time.
        """
        from torch import distributed

        packed = _packed(observers, encoder)
        self._arrive("done")
        with self._talking() as group:
            box: list[Any] = [packed]
            if self.rank:
                distributed.send_object_list(box, dst=0, group=group)
            else:
                whole = list(observers)
                for rank in range(1, self.size):
                    distributed.recv_object_list(box, src=rank, group=group)
                    others = _unpacked(box[0], encoder)
                    whole = [one + other for one, other in zip(whole, others, strict=True)]
                box = [_packed(whole, encoder)]
            self._arrive("added")
            distributed.broadcast_object_list(box, src=0, group=group)
        for observer, total in zip(observers, _unpacked(box[0], encoder), strict=True):
            vars(observer).update(vars(total))
            self._added[id(observer)] = observer

    def leave(self, tell: Callable[[], None]) -> None:
        """One rank tells why all end; the others wait for it, and all end at about the same time.

        The launcher ends what is left as soon as one has gone, be it in the middle of a line.
        """
        with suppress(RuntimeError):
            if self._store.add("leaving", 1) == 1:
                tell()
                self._store.add("leaving", 1)
            until = time.monotonic() + GRACE
            while self._store.add("leaving", 0) <= self.size and time.monotonic() < until:
                time.sleep(PAUSE)

    def _agree(self, facts: Mapping[str, object]) -> None:
        told = {name: str(fact) for name, fact in facts.items()}
        self._arrive("facts", json.dumps(told))
        first = json.loads(self._store.get(self._key("facts", 0)))
        for rank in range(1, self.size):
            other = json.loads(self._store.get(self._key("facts", rank)))
            apart = [
                f"{name} {first.get(name, 'none')} and {other.get(name, 'none')}"
                for name in sorted({*first, *other})
                if first.get(name) != other.get(name)
            ]
            if apart:
                raise HeadscopeError(
                    f"ranks 0 and {rank} do not share one task: {'; '.join(apart)}; give every "
                    "rank the same model, data and options"
                )

    def _arrive(self, where: str, message: str = "") -> None:
        """Waits until all ranks have come to the same point, or one has failed."""
        self._store.set(self._key(where, self.rank), message)
        keys = [self._key(where, rank) for rank in range(self.size)]
        while not self._store.check(keys):
            self._stop_with_others()
            time.sleep(PAUSE)

    def _stop_with_others(self) -> None:
        if self._store.check([self._key("failure")]):
            raise HeadscopeError(self._store.get(self._key("failure")).decode())

    def _key(self, *parts: object) -> str:
        return "/".join(map(str, (self._n_passes, *parts)))

    @contextmanager
    def _talking(self) -> Iterator[ProcessGroup | None]:
        """A gloo group for as long as sums travel; they lie in main memory, also beside a GPU."""
        from torch import distributed

        try:
            if distributed.is_initialized():  # by the caller, perhaps for GPUs only
                group = distributed.new_group(backend="gloo")
            else:
                store = distributed.PrefixStore(self._key("gloo"), self._store)
                distributed.init_process_group(
                    "gloo", store=store, rank=self.rank, world_size=self.size
                )
                group = distributed.group.WORLD
            try:
                yield group
            finally:
                distributed.destroy_process_group(group)
        except RuntimeError as error:
            raise HeadscopeError(
                f"the ranks lost each other while their sums were added: {_told(error)}"
            ) from error


@cache
def ranks() -> Ranks | None:
    """The ranks of this launch, met on first use; None where there is a single process.

    Raises:
        HeadscopeError: the meeting place cannot be reached.
    """
    found = launch()
    return Ranks(found) if found.size > 1 else None


def tell_once(message: str, tell: Callable[[], None]) -> None:
    """Has one rank alone tell why the program ends, and the others end with it."""
    try:
        met = ranks()
    except HeadscopeError:
        met = None
    if met is None:
        tell()
    else:
        met.fail(message)
        met.leave(tell)


def _meeting_place(launch: Launch) -> Store:
    from torch import distributed

    try:
        place = f"env://?rank={launch.rank}&world_size={launch.size}"
        store, _, _ = next(iter(distributed.rendezvous(place, timeout=JOIN_WITHIN)))
    except (RuntimeError, ValueError) as error:
        raise HeadscopeError(
            f"rank {launch.rank} of {launch.size} cannot reach the others at "
            f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}: {_told(error)}"
        ) from error
    return distributed.PrefixStore("headscope", store)


def _told(error: BaseException) -> str:
    """An error as a part of one line."""
    return f"{type(error).__name__} {' '.join(str(error).split())[:200]}".rstrip()


class _Packer(pickle.Pickler):
    """Leaves the model out: every rank has its own."""

    def __init__(self, file: io.BytesIO, encoder: Encoder) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.encoder = encoder

    def persistent_id(self, obj: object) -> str | None:
        return "encoder" if obj is self.encoder else None


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, encoder: Encoder) -> None:
        super().__init__(file)
        self.encoder = encoder

    def persistent_load(self, pid: str) -> Encoder:
        return self.encoder


def _packed(observers: Sequence[Observer], encoder: Encoder) -> bytes:
    file = io.BytesIO()
    try:
        _Packer(file, encoder).dump(list(observers))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        names = ", ".join(type(observer).__name__ for observer in observers)
        raise HeadscopeError(f"{names} cannot be sent to another rank: {_told(error)}") from error
    return file.getvalue()


def _unpacked(packed: bytes, encoder: Encoder) -> list[Observer]:
    observers: list[Observer] = _Unpacker(io.BytesIO(packed), encoder).load()
    return observers
