"""What a user calls DATA, opened: a treebank, a text, a table, or the bundled sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import resources
from pathlib import Path

from headscope.datasets.conllu import is_blank, is_row, read_conllu
from headscope.datasets.files import check_file, fingerprint, pieces
from headscope.datasets.pairs import has_texts, open_pairs
from headscope.datasets.records import is_record, open_record
from headscope.datasets.remarks import remarked
from headscope.datasets.sentences import Corpus, Sentence, Unit
from headscope.datasets.survey import survey_conllu
from headscope.datasets.text import open_text
from headscope.errors import InputError, ParseError, unknown

FORMATS = ("conllu", "text", "pairs")
"""What can be read, as `--format` names it."""

DEMO = "demo"
"""The DATA argument that means the bundled sample."""

DEMO_NOTE = (
    "bundled sample: 14 documents of GUM's openly licensed genres "
    "(academic, court, interview, news), not the whole corpus"
)

_SUFFIXES = {".conllu": "conllu", ".txt": "text", ".tsv": "pairs", ".jsonl": "pairs"}
_LATER = {
    ".conll": "coreference in CoNLL-2012 columns",
    ".v4_auto_conll": "coreference in CoNLL-2012 columns",
}

_EXPECTED = "a .conllu treebank, a .txt text, or a .tsv or .jsonl table of texts"

_Place = Callable[[], AbstractContextManager[Path]]
"""Gives the file for as long as it is read; the sample may lie in an archive."""


def open_corpus(
    data: str | Path,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
) -> Corpus:
    """A corpus ready to be read; what cannot be used raises InputError, in one line.

    Args:
        data: a file, a record's folder, or the string `demo` for the bundled sample (a file named
            demo is `./demo`, or any Path).
        format: `conllu`, `text` or `pairs`; where None it is told by content, then by the name's
            ending.
        columns: of a table of texts, what it calls `text`, `text_pair`, `label` and `target`, where
            it has other names for them.
        limit: read only the first so many sentences; with `skip_bad`, the first so many good ones.
        skip_bad: leave broken sentences out and list them in `Corpus.skipped`.
    """
    if format is not None and format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if limit is not None and limit < 1:
        raise InputError(f"limit: found {limit}; expected 1 or more sentences")
    if data == DEMO:
        if format not in (None, "conllu"):
            raise InputError(f"{DEMO}: found format {format}; expected conllu, as the sample is")
        _refuse_columns(DEMO, "conllu", columns)
        sample = resources.files("headscope.datasets") / "sample" / "gum_sample.conllu"
        corpus = _open_conllu(lambda: resources.as_file(sample), skip_bad)
        return _cut(replace(corpus, name=DEMO, note=DEMO_NOTE), limit)
    if not str(data):
        raise InputError(f"DATA: found an empty name; expected a data file or {DEMO}")
    path = Path(data)
    if is_record(path):
        if format is not None or columns is not None:
            raise InputError(f"{path}: found a record; expected neither --format nor --columns")
        return _cut(open_record(path), limit)
    check_file(path)
    format = format or _recognise(path)
    if format == "pairs":
        return _cut(open_pairs(path, columns=columns, skip_bad=skip_bad), limit)
    _refuse_columns(path, format, columns)
    if format == "text":
        return _cut(open_text(path), limit)
    return _cut(_open_conllu(lambda: nullcontext(path), skip_bad), limit)


def _refuse_columns(data: str | Path, format: str, columns: Mapping[str, str] | None) -> None:
    if columns:
        raise InputError(
            f"{data}: found names of columns for format {format}; expected a table of texts "
            "(--format pairs)"
        )


def _open_conllu(place: _Place, skip_bad: bool) -> Corpus:
    with place() as path:
        survey = survey_conllu(path)
        name, sha256 = path.name, fingerprint(path)
    skipped: list[str] = []

    def read() -> Iterator[Sentence]:
        with place() as path:
            ordinal = None
            for sentence in read_conllu(path, skip_bad=skip_bad, skipped=skipped):
                ordinal = sentence.ordinal
                yield sentence.to_sentence(
                    ordinal, sentence.document if survey.documents else ordinal
                )
            if ordinal is None:
                raise ParseError(
                    path, None, f"no good sentence among {len(skipped):,}",
                    "at least one", f"the first is broken so: {skipped[0]}",
                )  # fmt: skip

    unit: Unit = "document" if survey.documents else "sentence"
    return Corpus(
        name, sha256, "conllu", unit, "gold", "", read, skipped, n_sentences=survey.n_sentences
    )


def _cut(corpus: Corpus, limit: int | None) -> Corpus:
    """The corpus with its limit, and with remarks on what it holds collected while it is read."""

    def read() -> Iterator[Sentence]:
        corpus.skipped.clear()
        corpus.warnings.clear()
        return remarked(corpus.read(), corpus.warnings, limit)

    if limit is None:
        return replace(corpus, read=read)
    cut = f"only the first {limit:,} {corpus.item}{'s' if limit > 1 else ''}"
    note = f"{corpus.note}; {cut}" if corpus.note else cut
    known = corpus.n_sentences
    total = None if known is None else min(known, limit)
    return replace(corpus, read=read, note=note, n_sentences=total)


def _recognise(path: Path) -> str:
    """The format, by the first line, comments of treebanks left out, else by the name's ending."""
    head = next(pieces(path), "").split("\n")
    first = next((text for text in head if not text.startswith("#") and not is_blank(text)), "")
    if is_row(first):
        return "conllu"
    if has_texts(head[0]):
        return "pairs"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    later = _LATER[".conll"] if head[0].startswith("#begin document") else _LATER.get(suffix)
    if later:
        raise ParseError(path, None, f"{later}, which a later version reads", _EXPECTED)
    if suffix not in _SUFFIXES:
        raise ParseError(
            path, None, f"a name ending in '{suffix}'" if suffix else "a name without an ending",
            _EXPECTED, f"name the format: --format {'|'.join(FORMATS)}",
        )  # fmt: skip
    return _SUFFIXES[suffix]
