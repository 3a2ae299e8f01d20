"""Tasks that a model is fine-tuned on: their files, columns, labels and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headscope.errors import unknown

TaskKind = Literal["classification", "regression"]

NLI_LABELS = ("entailment", "neutral", "contradiction")
_NLI_ALIASES = {"contradictory": "contradiction", "entailed": "entailment"}
_ENTAILMENT = ("entailment", "not_entailment")


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: as the command line has it.
        kind: classification, or regression to one number.
        columns: the names that files of the task give to `text`, `text_pair` and `label`; the first
            row of names that a file has is taken.
        labels: names, in the order of the outputs; None where the training data tell them.
        aliases: other names that files have for a label. A number stands for a label only here.
        metrics: by the names of `finetune.metrics`; the first chooses the best checkpoint.
        files: split -> names of files, the first that is there is taken.
        header: names of the columns, where files have no header line.
        bounds: lowest and highest score of a regression.
        hub: hub id and configuration.
        gold_last: whether a row may have more fields than the header, the label being the last one.
    """

    name: str
    kind: TaskKind
    columns: tuple[Mapping[str, str], ...]
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    header: tuple[str, ...] | None = None
    bounds: tuple[float, float] | None = None
    hub: tuple[str, str | None] | None = None
    gold_last: bool = False

    @property
    def n_outputs(self) -> int | None:
        """Numbers that its head gives; None where the training data tell."""
        if self.kind == "regression":
            return 1
        return None if self.labels is None else len(self.labels)


def _files(dev: str = "dev", test: str = "test") -> dict[str, tuple[str, ...]]:
    endings = ("tsv", "jsonl", "json", "csv")
    stems = {"train": "train", "dev": dev, "test": test}
    return {split: tuple(f"{stem}.{ending}" for ending in endings) for split, stem in stems.items()}


def _single(text: str, label: str = "label") -> dict[str, str]:
    return {"text": text, "label": label}


def _pair(first: str, second: str, label: str = "label") -> dict[str, str]:
    return {"text": first, "text_pair": second, "label": label}


def _numbers(*names: str) -> dict[str, str]:
    return {str(number): name for number, name in enumerate(names)}


def _glue(
    name: str, kind: TaskKind, labels: tuple[str, ...] | None, metrics: tuple[str, ...],
    *columns: Mapping[str, str], **more: object,
) -> Task:  # fmt: skip
    given: dict[str, object] = {"files": _files(), "hub": ("nyu-mll/glue", name), **more}
    return Task(name, kind, columns, labels, metrics, **given)  # type: ignore[arg-type]


_SENTENCES = ("sentence1", "sentence2")
_PREMISES = ("premise", "hypothesis")
_BOTH = (
    _pair(*_SENTENCES, "gold_label"), _pair(*_SENTENCES),
    _pair(*_PREMISES, "gold_label"), _pair(*_PREMISES),
)  # fmt: skip


def _nli(name: str, hub: tuple[str, str | None], **more: object) -> Task:
    given: dict[str, object] = {"aliases": _NLI_ALIASES, "files": _files(), "hub": hub, **more}
    return Task(name, "classification", _BOTH, NLI_LABELS, ("accuracy",), **given)  # type: ignore[arg-type]


TASKS = {
    task.name: task
    for task in (
        _glue(
            "cola", "classification", ("unacceptable", "acceptable"), ("matthews", "accuracy"),
            _single("sentence"), aliases=_numbers("unacceptable", "acceptable"),
            header=("source", "label", "star", "sentence"),
        ),
        _glue(
            "sst2", "classification", ("negative", "positive"), ("accuracy",),
            _single("sentence"), aliases=_numbers("negative", "positive"),
        ),
        _glue(
            "mrpc", "classification", ("not_equivalent", "equivalent"), ("accuracy", "f1"),
            _pair("#1 String", "#2 String", "Quality"), _pair(*_SENTENCES),
            aliases=_numbers("not_equivalent", "equivalent"),
        ),
        _glue(
            "stsb", "regression", None, ("pearson", "spearman"),
            _pair(*_SENTENCES, "score"), _pair(*_SENTENCES), bounds=(0.0, 5.0),
        ),
        _glue(
            "qqp", "classification", ("not_duplicate", "duplicate"), ("accuracy", "f1"),
            _pair("question1", "question2", "is_duplicate"), _pair("question1", "question2"),
            aliases=_numbers("not_duplicate", "duplicate"),
        ),
        _nli("mnli", ("nyu-mll/glue", "mnli"), files=_files("dev_matched", "test_matched")),
        _glue(
            "qnli", "classification", _ENTAILMENT, ("accuracy",), _pair("question", "sentence")
        ),
        _glue("rte", "classification", _ENTAILMENT, ("accuracy",), _pair(*_SENTENCES)),
        _glue(
            "wnli", "classification", ("not_entailment", "entailment"), ("accuracy",),
            _pair(*_SENTENCES), aliases=_numbers("not_entailment", "entailment"),
        ),
        _nli("snli", ("stanfordnlp/snli", None), gold_last=True),
        _nli("klue-nli", ("klue/klue", "nli")),
        _nli("xnli", ("facebook/xnli", "en")),
        Task(
            "classification", "classification",
            (_pair("text", "text_pair"), _single("text")), None, ("accuracy", "f1_macro"),
            files=_files(),
        ),
        Task(
            "regression", "regression", (_pair("text", "text_pair"), _single("text")), None,
            ("pearson", "spearman"), files=_files(),
        ),
    )
}  # fmt: skip
"""Every task by name; the last two take any table with a header."""


def task_of(name: str) -> Task:
    """The task of that name.

    Raises:
        HeadscopeError: there is none; near matches are named.
    """
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return TASKS[name]
