"""Tasks: their labels are told by name, and a name that does not exist is refused."""

import pytest

from headscope.datasets.tasks import NLI_LABELS, TASKS, task_of
from headscope.errors import HeadscopeError

GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")


def test_all_of_glue_is_there():
    assert set(GLUE) <= set(TASKS)


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_every_task_is_whole(task):
    assert task.name == task_of(task.name).name
    assert set(task.files) == {"train", "dev", "test"}
    assert all({"text", "label"} <= set(names) for names in task.columns)
    assert set(task.aliases.values()) <= set(task.labels or ())
    assert (task.n_outputs == 1) == (task.kind == "regression")


def test_numbers_name_a_label_only_where_files_have_numbers():
    # C098: the order of NLI labels differs between sources, so that no number names one.
    for name in ("mnli", "snli", "klue-nli", "xnli"):
        assert task_of(name).labels == NLI_LABELS
        assert not any(alias.isdigit() for alias in task_of(name).aliases)
    assert task_of("sst2").aliases == {"0": "negative", "1": "positive"}
    assert task_of("wnli").aliases == {"0": "not_entailment", "1": "entailment"}
    assert task_of("qnli").labels == ("entailment", "not_entailment")


def test_an_unknown_task_is_refused():
    with pytest.raises(HeadscopeError, match="unknown task 'sst-2'; did you mean 'sst2'"):
        task_of("sst-2")
