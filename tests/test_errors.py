from pathlib import Path

import pytest

from headscope import errors


def test_every_error_is_caught_by_one_name():
    classes = (errors.ModelError, errors.InputError, errors.MergeError, errors.ParseError)
    assert all(issubclass(cls, errors.HeadscopeError) for cls in classes)
    assert issubclass(errors.ParseError, errors.InputError)


def test_parse_error_tells_place_found_expected_and_what_to_do():
    error = errors.ParseError(Path("a.conllu"), 7, "9 columns", "10", "restore the tabs")
    assert str(error) == "a.conllu:7: found 9 columns; expected 10; restore the tabs"
    assert (error.path, error.line) == ("a.conllu", 7)


def test_parse_error_of_a_whole_file_has_no_line():
    error = errors.ParseError("a.conllu", None, "no sentence", "at least one")
    assert str(error) == "a.conllu: found no sentence; expected at least one"
    assert error.line is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("entopy", "unknown measure 'entopy'; did you mean 'entropy'? Known: distance, entropy"),
        ("zzz", "unknown measure 'zzz'; known: distance, entropy"),
    ],
)
def test_unknown_name_is_answered_with_what_is_known(name, message):
    error = errors.unknown("measure", name, ["entropy", "distance"])
    assert isinstance(error, errors.HeadscopeError)
    assert str(error) == message


def test_unknown_takes_names_once_only():
    assert str(errors.unknown("task", "b", iter(["a", "c"]))).endswith("known: a, c")
