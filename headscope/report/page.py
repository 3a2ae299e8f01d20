"""The report: one HTML file that says what every attention head of a model attends to."""

from __future__ import annotations

from collections.abc import Sequence

from headscope.errors import HeadscopeError
from headscope.report.dependency import dependency_section
from headscope.report.document import page
from headscope.report.explorer import explorer_section
from headscope.report.figures import SCRIPTS, STYLES
from headscope.report.glance import glance
from headscope.report.markup import element
from headscope.report.origin import header, page_title
from headscope.report.surface import surface_section
from headscope.report.wording import footer
from headscope.results import DependencyResult, Example, Result, SurfaceResult


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
        dependency: which head carries which relation, or None to leave the section out.
        examples: sentences to look at one by one; none leaves the explorer out and says so.
        title: of the page; default says which model on which data.

    Raises:
        HeadscopeError: both results are None, or they are of different models or data, or an
            example has other layers and heads than the model.
    """
    results = [result for result in (surface, dependency) if result is not None]
    _check(results, examples)
    linked = bool(examples)
    sections = [glance(surface, dependency, linked=linked)]
    links = [("reading", "How to read")]
    if surface is not None:
        sections.append(surface_section(surface, linked=linked))
        links.insert(-1, ("patterns", "What heads attend to"))
    if dependency is not None:
        sections.append(dependency_section(dependency, linked=linked))
        links.insert(-1, ("relations", "Relations"))
    sections.append(explorer_section(examples, dependency))
    if examples:
        links.insert(-1, ("sentences", "Sentences"))
    body = (
        header(results, title)
        + _navigation(links)
        + element("main", "".join(sections))
        + footer(results)
    )
    return page(
        title=page_title(results, title),
        body=body,
        styles=(*STYLES, "report.css", "table.css", "explorer.css", "print.css"),
        scripts=(*SCRIPTS, "table.js", "sentences.js", "arcs.js", "explorer.js"),
        plotly=True,
    )


def _navigation(links: Sequence[tuple[str, str]]) -> str:
    items = "".join(element("li", element("a", name, href=f"#{target}")) for target, name in links)
    return element("nav", element("ul", items), aria_label="sections")


def _check(results: Sequence[Result], examples: Sequence[Example]) -> None:
    if not results:
        raise HeadscopeError("a report needs a surface or a dependency result, got neither")
    first, last = results[0].provenance, results[-1].provenance
    if (first.model, first.data.sha256) != (last.model, last.data.sha256):
        raise HeadscopeError(
            f"the results of a report must be of one model and one file, got {first.model.name} on "
            f"{first.data.name} and {last.model.name} on {last.data.name}"
        )
    shape = (first.model.n_layers, first.model.n_heads)
    for example in examples:
        if example.attention.shape[:2] != shape:
            raise HeadscopeError(
                f"example {example.sent_id} has {example.attention.shape[0]} layers x "
                f"{example.attention.shape[1]} heads, the model has {shape[0]} x {shape[1]}"
            )
