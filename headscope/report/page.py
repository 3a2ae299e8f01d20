"""The report: one HTML file that says what every attention head of a model attends to."""

from __future__ import annotations

from collections.abc import Sequence

from headscope.errors import HeadscopeError
from headscope.report.document import page
from headscope.report.figures import SCRIPTS, STYLES, figure_block
from headscope.report.markup import element, text
from headscope.results import DependencyResult, Example, SurfaceResult
from headscope.visualize import best_heads, relation_map, surface_maps


def render(
    surface: SurfaceResult | None,
    dependency: DependencyResult | None,
    examples: Sequence[Example],
    *,
    title: str | None = None,
) -> str:
    """One self-contained HTML page.

    Args:
        surface: what each head attends to, or None to leave the section out.
        dependency: which head carries which relation, or None.
        examples: sentences to look at one by one; none leaves the explorer out.
        title: of the page; default says which model on which data.

    Raises:
        HeadscopeError: both results are None.
    """
    first = surface or dependency
    if first is None:
        raise HeadscopeError("a report needs a surface or a dependency result, got neither")
    heading = title or first.headline()
    body = element("h1", text(heading))
    if surface is not None and surface.measures:
        body += figure_block(surface_maps(surface), "surface-map", label="layers x heads")
    if dependency is not None and dependency.relations:
        body += figure_block(best_heads(dependency), "best-heads", label="best heads")
        body += figure_block(relation_map(dependency), "relation-map", label="relations x heads")
    return page(title=heading, body=body, styles=STYLES, scripts=SCRIPTS, plotly=True)
