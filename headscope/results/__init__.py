"""What headscope produces: frozen results that know their definition, units, counts and origin."""

from headscope.results.dependency import (
    DIRECTIONS,
    BestHead,
    DependencyResult,
    Direction,
    OffsetBaseline,
    RelationScore,
)
from headscope.results.envelope import (
    DataInfo,
    ModelInfo,
    Provenance,
    Result,
    counted,
    plain,
    pointer,
)
from headscope.results.example import NOT_TOKENS, Example
from headscope.results.schema import schema
from headscope.results.surface import HeadMap, SurfaceResult

__all__ = [
    "DIRECTIONS",
    "NOT_TOKENS",
    "BestHead",
    "DataInfo",
    "DependencyResult",
    "Direction",
    "Example",
    "HeadMap",
    "ModelInfo",
    "OffsetBaseline",
    "Provenance",
    "RelationScore",
    "Result",
    "SurfaceResult",
    "counted",
    "plain",
    "pointer",
    "schema",
]
