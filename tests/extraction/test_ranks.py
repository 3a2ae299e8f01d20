"""Who takes what, and how ranks that meet agree, fail and leave."""

import threading
import time

import numpy as np
import pytest
from torch import distributed

from headscope.errors import HeadscopeError
from headscope.extraction import ranks as module
from headscope.extraction.calibration import KeepMaps
from headscope.extraction.launch import Launch
from headscope.extraction.loading import load_encoder
from headscope.extraction.observers import Resampling
from headscope.extraction.ranks import Ranks, ranks, tell_once
from headscope.probing.surface import Surface


@pytest.fixture
def met(monkeypatch):
    """Makes ranks that meet in a store of this process."""
    store = distributed.HashStore()
    monkeypatch.setattr(module, "_meeting_place", lambda _: store)
    monkeypatch.setattr(module, "GRACE", 1.0)
    return lambda size: [Ranks(Launch(rank, size)) for rank in range(size)]


def at_once(*calls):
    """Runs the calls side by side; what each of them returned or raised."""
    ended = [None] * len(calls)

    def keep(place, call):
        try:
            ended[place] = call()
        except BaseException as error:
            ended[place] = error

    threads = [threading.Thread(target=keep, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    return ended


def test_a_batch_goes_to_the_rank_that_has_least_to_do(met):
    shapes = [(1, 150), *[(4, 50)] * 2, (2, 50), *[(4, 50)] * 3]
    costs = [n * length * (1 + length / 150) for n, length in shapes]
    assert costs == pytest.approx([300, 800 / 3, 800 / 3, 400 / 3, 800 / 3, 800 / 3, 800 / 3])
    dealers = [rank.dealt() for rank in met(2)]
    dealt = [[rank for rank, takes in enumerate(dealers) if takes(*shape)] for shape in shapes]
    # Loads: 300 0 | 300 267 | 300 533 | 433 533 | 700 533 | 700 800 | 967 800
    assert dealt == [[0], [1], [1], [0], [0], [1], [0]]


def one_pass(rank, facts, inside=lambda: None):
    def call():
        with rank.one_pass(facts):
            inside()

    return call


def test_ranks_that_agree_go_on(met):
    one, two = met(2)
    assert at_once(one_pass(one, {"a": 1}), one_pass(two, {"a": 1})) == [None, None]


def test_ranks_that_see_different_things_stop_and_name_them(met):
    three = met(3)
    facts = [{"data": "x", "seed": 0}, {"data": "x", "seed": 0}, {"data": "y", "rows": "mean"}]
    ended = at_once(*(one_pass(rank, fact) for rank, fact in zip(three, facts, strict=True)))
    assert {str(error) for error in ended if "rank " not in str(error)[:5]} == {
        "ranks 0 and 2 do not share one task: data x and y; rows none and mean; seed 0 and none; "
        "give every rank the same model, data and options"
    }
    assert all(isinstance(error, HeadscopeError) for error in ended)


def test_a_rank_that_fails_stops_those_that_wait_and_those_that_compute(met, monkeypatch):
    monkeypatch.setattr(module, "LOOK_EVERY", 0.0)
    one, two, three = met(3)

    def compute():
        while True:
            two.look()
            time.sleep(0.01)

    def fail():
        raise MemoryError("too\nmuch")

    ended = at_once(
        one_pass(one, {}, lambda: one._arrive("done")),
        one_pass(two, {}, compute),
        one_pass(three, {}, fail),
    )
    assert [str(error) for error in ended[:2]] == ["rank 2: MemoryError too much"] * 2
    assert isinstance(ended[2], MemoryError)
    # All have left that pass together, and can begin another.
    assert at_once(*(one_pass(rank, {}) for rank in (one, two, three))) == [None] * 3


def test_a_rank_that_fails_before_a_pass_stops_those_that_began_it(met):
    one, two = met(2)
    two.fail("no such file")
    (error,) = at_once(one_pass(one, {}))
    assert str(error) == "rank 1: no such file"


def test_one_rank_tells_and_the_others_wait_for_it(met):
    told = []

    def tell():
        time.sleep(0.3)
        told.append(time.monotonic())

    def leave(rank):
        rank.leave(tell)
        return time.monotonic()

    left = at_once(*(lambda rank=rank: leave(rank) for rank in met(3)))
    assert len(told) == 1
    assert min(left) >= told[0]


def test_a_rank_does_not_wait_for_ever_for_the_others_to_leave(met):
    told = []
    start = time.monotonic()
    met(2)[0].leave(lambda: told.append(1))
    assert told == [1]
    assert 0.9 < time.monotonic() - start < 10


def test_a_single_process_tells_for_itself(monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    told = []
    ranks.cache_clear()
    tell_once("it failed", lambda: told.append(1))
    assert told == [1]


def test_observers_travel_without_the_model():
    here, there = load_encoder("demo"), load_encoder("demo")
    surface = Surface(here, Resampling(3, "ab" * 32))
    surface.sums += np.arange(surface.sums.size).reshape(surface.sums.shape)
    packed = module._packed([surface], here)
    sums = [value for value in vars(surface).values() if isinstance(value, np.ndarray)]
    assert len(packed) < sum(array.nbytes for array in sums) + 100_000
    (arrived,) = module._unpacked(packed, there)
    assert arrived.encoder is there
    assert arrived.resampling == surface.resampling
    np.testing.assert_array_equal(arrived.sums, surface.sums)


def test_an_observer_that_cannot_travel_is_refused_before_the_pass(met):
    keep = KeepMaps()
    keep.how = lambda: None
    with pytest.raises(HeadscopeError, match="KeepMaps cannot be sent to another rank"):
        met(2)[0].check(load_encoder("demo"), [keep])
