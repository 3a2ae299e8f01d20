"""What every result carries besides its numbers; how it becomes JSON, a table, a notebook cell."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

Array = npt.NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class ModelInfo:
    """Which model was observed; `attention` is `encoder`, `decoder` or `cross`."""

    name: str
    revision: str | None
    weights_sha256: str
    n_layers: int
    n_heads: int
    family: str
    attention: str
    dtype: str

    @property
    def attention_name(self) -> str:
        """Whose attention it is, as people name it."""
        return "cross-attention" if self.attention == "cross" else f"{self.attention} attention"


@dataclass(frozen=True)
class DataInfo:
    """Which data were scored, how much of them, and what had to be left out.

    Attributes:
        unit: what intervals resample, `document` or `sentence`; `n_units` is their number.
        skipped: reason -> number, such as `too_long` (sentences) or `arcs_on_missing_words`.
        unk_rate: share of subword tokens, special ones left out, that are the unknown token.
        annotation: `gold` or `parsed`.
        note: one line told with every table, or an empty string.
    """

    name: str
    sha256: str
    format: str
    unit: str
    n_units: int
    n_sentences: int
    n_words: int
    n_tokens: int
    skipped: Mapping[str, int]
    unk_rate: float
    annotation: str
    note: str

    @property
    def item(self) -> str:
        """What `n_sentences` counts: a sentence, or a row of a table of texts."""
        return "row" if self.format == "pairs" else "sentence"

    @property
    def unit_name(self) -> str:
        """What intervals resample, as people name it: the sentence of a table is its row."""
        return self.item if self.unit == "sentence" else self.unit


@dataclass(frozen=True)
class Provenance:
    """Everything that must be equal for two results to be comparable."""

    model: ModelInfo
    data: DataInfo
    settings: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Result(ABC):
    """A frozen analysis of one model on one corpus.

    Attributes:
        provenance: model, data, settings, seed, versions, warnings.
        control: the same analysis under `--control`, else None; its own `control` is None.
    """

    kind: ClassVar[str]
    definition: ClassVar[str]
    version: ClassVar[int] = 1

    provenance: Provenance
    control: Result | None

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """The numbers, as they stand under `values` in the JSON file; NaN where undefined."""

    @abstractmethod
    def intervals(self) -> dict[str, Any]:
        """Name -> `low` and `high` of the 95 % interval, as under `ci95` in the JSON file."""

    @abstractmethod
    def nulls(self) -> dict[str, str]:
        """JSON pointer -> why the value there is null."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """The main table, one score a row, as `.csv` and `.parquet` files hold it."""

    def blocks(self) -> dict[str, Any]:
        """Further top-level JSON entries of this kind; none by default."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """One JSON-ready object (schema in `headscope/schemas`): plain types, None for NaN."""
        origin = self.provenance
        whole = {
            "kind": self.kind,
            "version": self.version,
            "definition": self.definition,
            "model": asdict(origin.model),
            "data": asdict(origin.data),
            "settings": dict(origin.settings),
            "seed": origin.seed,
            "versions": dict(origin.versions),
            "warnings": list(origin.warnings),
            **self._numbers(),
            "control": None if self.control is None else self.control._numbers(),
        }
        return {key: plain(value) for key, value in whole.items()}

    def to_json(self) -> str:
        """The JSON text: keys sorted, no NaN, a line feed at the end."""
        return (
            json.dumps(self.to_dict(), sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"
        )

    def headline(self) -> str:
        """One line that says what was analysed on what."""
        model, data = self.provenance.model, self.provenance.data
        target = self.provenance.settings.get("target")
        whose = f"{model.attention_name}, target: {target}" if target else model.attention_name
        layers, heads = counted(model.n_layers, "layer"), counted(model.n_heads, "head")
        return (
            f"{self.kind}: {model.name} ({layers} x {heads}, {whose}) on {data.name}: "
            f"{counted(data.n_sentences, data.item)}, {counted(data.n_words, 'word')}, "
            f"{data.annotation} annotation"
        )

    def __repr__(self) -> str:
        """The headline; all the numbers would fill pages."""
        return f"<{type(self).__name__} {self.headline()}>"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        notes = "".join(f"<li>{escape(text)}</li>" for text in self.provenance.warnings)
        table: str = frame.head(20).to_html(index=False, float_format="{:.3f}".format, na_rep="")
        more = (
            f"<p>... {len(frame) - 20:,} more rows: <code>.to_frame()</code></p>"
            if len(frame) > 20
            else ""
        )
        return f"<p><b>{escape(self.headline())}</b></p><ul>{notes}</ul>{table}{more}"

    def _numbers(self) -> dict[str, Any]:
        return {
            "values": self.values(),
            "ci95": self.intervals(),
            "nulls": self.nulls(),
            **self.blocks(),
        }


def counted(count: int, name: str) -> str:
    """A number and what it counts.

    >>> counted(1, "row"), counted(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def plain(value: Any) -> Any:
    """Arrays and mappings as lists and dicts of Python numbers; NaN and infinities as None.

    >>> plain({"a": np.array([1.0, np.nan])})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def pointer(*parts: str | int) -> str:
    """JSON pointer (RFC 6901) made of its parts.

    >>> pointer("values", "relations", "acl/relcl")
    '/values/relations/acl~1relcl'
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
