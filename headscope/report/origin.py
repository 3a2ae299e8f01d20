"""The head of a report: which model was observed on which data, and what to beware of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headscope.report.markup import element, text
from headscope.results import Provenance, Result, counted
from headscope.visualize.labels import NONE, control_name

Facts = Sequence[tuple[str, str]]
"""Names and markup of facts, in order."""

TARGETS: Mapping[str | None, str] = {
    "column": " The decoder reads the target of each row.",
    "copy": " The decoder reads a copy of the source text.",
}
"""What is said of a decoder's input, by the setting `target`."""


def header(results: Sequence[Result], title: str | None) -> str:
    """Title, warnings, and everything one needs to make the report again."""
    origin = results[0].provenance
    cards = "".join(
        element("section", element("h2", name) + _facts(facts), class_="facts")
        for name, facts in (
            ("Model", _model(origin)),
            ("Data", _data(results)),
            ("Run", _run(results)),
        )
    )
    return element(
        "header",
        element("p", "headscope", class_="wordmark")
        + _heading(origin, title)
        + _lede(origin)
        + _warnings(results)
        + element("div", cards, class_="origin"),
        class_="masthead",
    )


def page_title(results: Sequence[Result], title: str | None) -> str:
    """Plain text for the browser's tab."""
    origin = results[0].provenance
    return title or f"{_subject(origin)} of {origin.model.name} on {origin.data.name}"


def _heading(origin: Provenance, title: str | None) -> str:
    if title:
        return element("h1", text(title))
    # A line may break after each folder of a path.
    model, data = (
        element("bdi", text(name).replace("/", "/<wbr>"))
        for name in (origin.model.name, origin.data.name)
    )
    return element("h1", f"{_subject(origin)} of <em>{model}</em> on <em>{data}</em>")


def _subject(origin: Provenance) -> str:
    """Whose heads; a decoder that reads a target is not all there is of its model."""
    if not origin.settings.get("target"):
        return "Attention heads"
    return f"{origin.model.attention_name.capitalize()} heads"


def _lede(origin: Provenance) -> str:
    model, data = origin.model, origin.data
    layers, heads = counted(model.n_layers, "layer"), counted(model.n_heads, "head")
    sentence = (
        f"{counted(model.n_layers * model.n_heads, 'attention head')} ({layers} × {heads}, "
        f"{model.attention_name}) over {counted(data.n_sentences, data.item)}, "
        f"{counted(data.n_words, 'word')} with {data.annotation} annotation."
        f"{TARGETS.get(origin.settings.get('target'), '')} Attention heads are named layer.head, "
        f"both counted from 0: the last one here is {model.n_layers - 1}.{model.n_heads - 1}."
    )
    return element("p", text(sentence), class_="lede")


def _warnings(results: Sequence[Result]) -> str:
    """Warnings and the note on the data, each once, before any number."""
    warned = _unique(item for result in results for item in result.provenance.warnings)
    noted = _unique(result.provenance.data.note for result in results)
    parts = []
    if warned:
        items = "".join(element("li", text(item)) for item in warned)
        name = "Keep in mind"
        parts.append(
            element(
                "div",
                element("strong", name) + element("ul", items),
                class_="warnings",
                role="note",
            )
        )
    parts += [
        element("p", element("strong", "About the data: ") + text(note), class_="note")
        for note in noted
    ]
    return "".join(parts)


def _model(origin: Provenance) -> Facts:
    model = origin.model
    return (
        ("name", element("bdi", text(model.name))),
        ("revision", text(model.revision or NONE)),
        ("family", text(model.family)),
        ("attention", text(model.attention)),
        ("layers × heads", f"{model.n_layers} × {model.n_heads}"),
        ("dtype", text(model.dtype)),
        ("weights sha256", _digest(model.weights_sha256)),
    )


def _data(results: Sequence[Result]) -> Facts:
    data = results[0].provenance.data
    skipped: dict[str, int] = {}
    for result in results:
        skipped |= result.provenance.data.skipped
    left_out = ", ".join(
        f"{text(reason.replace('_', ' '))}: {count:,}" for reason, count in skipped.items() if count
    )
    return (
        ("name", element("bdi", text(data.name))),
        ("sha256", _digest(data.sha256)),
        ("format", text(data.format)),
        ("annotation", text(data.annotation)),
        ("intervals resample", text(counted(data.n_units, data.unit_name))),
        (f"{data.item}s", f"{data.n_sentences:,}"),
        ("words", f"{data.n_words:,}"),
        ("subword tokens", f"{data.n_tokens:,}"),
        ("skipped", left_out or "nothing"),
        ("unknown pieces", f"{100 * data.unk_rate:.2f} % of tokens"),
    )


def _run(results: Sequence[Result]) -> Facts:
    origin = results[0].provenance
    settings: dict[str, Any] = {}
    for result in results:
        settings |= result.provenance.settings
    facts = [(text(name.replace("_", " ")), _setting(value)) for name, value in settings.items()]
    controls = _unique(control_name(result) for result in results if result.control is not None)
    if controls and settings.get("control") not in controls:
        facts.append(("control shown", text(", ".join(controls))))
    facts.append(("seed", str(origin.seed)))
    return facts + [(text(name), text(version)) for name, version in origin.versions.items()]


def _setting(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return text(", ".join(f"{key}: {item}" for key, item in value.items()) or NONE)
    if isinstance(value, list | tuple):
        return text(", ".join(map(str, value)) or NONE)
    return text(value)


def _digest(digest: str) -> str:
    """The start of a checksum, the whole on hover and for copying."""
    if not digest:
        return NONE
    return element("code", f"{text(digest[:12])}…", title=digest)


def _facts(facts: Facts) -> str:
    rows = "".join(element("dt", name) + element("dd", value) for name, value in facts)
    return element("dl", rows)


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(item for item in items if item))
