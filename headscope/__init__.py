"""What a transformer's attention heads know, and what fine-tuning did to them.

Public names are loaded on first use: `import headscope` brings in neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headscope.datasets import Corpus as Corpus
    from headscope.datasets import Sentence as Sentence
    from headscope.datasets import open_corpus as open_corpus
    from headscope.datasets import read_conllu as read_conllu
    from headscope.datasets import write_conllu as write_conllu
    from headscope.extraction.attention import attention as attention
    from headscope.extraction.calibration import observe as observe
    from headscope.extraction.encoder import Encoder as Encoder
    from headscope.extraction.loading import load_encoder as load_encoder
    from headscope.extraction.record.identity import RecordSettings as RecordSettings
    from headscope.extraction.record.reading import Record as Record
    from headscope.extraction.record.writing import record as record
    from headscope.extraction.run import run as run
    from headscope.probing.analysis import Analysis as Analysis
    from headscope.probing.analysis import Settings as Settings
    from headscope.probing.analysis import analyse as analyse
    from headscope.probing.analysis import dependency as dependency
    from headscope.probing.analysis import surface as surface
    from headscope.probing.dependency import Dependency as Dependency
    from headscope.probing.surface import Surface as Surface
    from headscope.results import DependencyResult as DependencyResult
    from headscope.results import SurfaceResult as SurfaceResult

__version__ = "0.1.0"

_HOMES = {
    "Analysis": "headscope.probing.analysis",
    "Settings": "headscope.probing.analysis",
    "analyse": "headscope.probing.analysis",
    "dependency": "headscope.probing.analysis",
    "surface": "headscope.probing.analysis",
    "Corpus": "headscope.datasets",
    "Dependency": "headscope.probing.dependency",
    "DependencyResult": "headscope.results",
    "Encoder": "headscope.extraction.encoder",
    "Record": "headscope.extraction.record.reading",
    "RecordSettings": "headscope.extraction.record.identity",
    "Sentence": "headscope.datasets",
    "Surface": "headscope.probing.surface",
    "SurfaceResult": "headscope.results",
    "attention": "headscope.extraction.attention",
    "load_encoder": "headscope.extraction.loading",
    "observe": "headscope.extraction.calibration",
    "open_corpus": "headscope.datasets",
    "read_conllu": "headscope.datasets",
    "record": "headscope.extraction.record.writing",
    "run": "headscope.extraction.run",
    "write_conllu": "headscope.datasets",
}
"""Public name -> module that defines it; the imports above tell type checkers the same."""

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headscope' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
