"""What the environment of a launcher says, and what is made of it."""

import pytest

from headscope.errors import HeadscopeError
from headscope.extraction import launch as module
from headscope.extraction.launch import Launch, launch
from headscope.extraction.loading import placement

PLACE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


@pytest.fixture
def environment(monkeypatch):
    """Sets variables, all others that launchers know being unset."""
    for name in (*module._RANK, *module._SIZE, *module._LOCAL, *PLACE):
        monkeypatch.delenv(name, raising=False)

    def set_to(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_to


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Launch(0, 1, 0)),
        ({**PLACE}, Launch(0, 1, 0)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Launch(0, 1, 0)),
        ({**PLACE, "RANK": "0", "WORLD_SIZE": "1"}, Launch(0, 1, 0)),
        ({**PLACE, "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, Launch(5, 8, 1)),
        ({**PLACE, "PMI_RANK": "1", "PMI_SIZE": "2"}, Launch(1, 2, 1)),
        (
            {**PLACE, "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
             "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, Launch(3, 4, 1),
        ),
    ],
)  # fmt: skip
def test_the_launcher_says_which_rank_this_is(environment, variables, expected):
    environment(**variables)
    assert launch() == expected
    assert launch().leads is (expected.rank == 0)


@pytest.mark.parametrize(
    ("rank", "message"),
    [("2", "rank 2 of 2; expected ranks from 0 to 1"), ("one", "RANK is 'one'; expected a whole")],
)
def test_numbers_that_make_no_sense_are_refused(environment, rank, message):
    environment(**PLACE, RANK=rank, WORLD_SIZE="2")
    with pytest.raises(HeadscopeError, match=message):
        launch()


def test_every_rank_of_a_machine_takes_its_own_gpu(environment, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert str(placement("auto", "float32")[0]) == "cuda"
    environment(**PLACE, RANK="7", WORLD_SIZE="8", LOCAL_RANK="3")
    assert str(placement("auto", "float32")[0]) == "cuda:1"
    assert str(placement("cuda:0", "float32")[0]) == "cuda:0"
    assert str(placement("cpu", "float32")[0]) == "cpu"
