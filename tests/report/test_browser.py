"""Reports in a browser: they open without a network, and what is selected is what is shown."""

from dataclasses import replace

import numpy as np
import pytest

from headscope.report import document, render, write_report, write_result
from headscope.report.explorer import STEPS
from headscope.results import DIRECTIONS, NOT_TOKENS, SurfaceResult
from tests.report.conftest import CHROMIUM
from tests.synthetic import dependency, example, examples, provenance, surface

STAND_IN = """
const Plotly = {
  names: [],
  newPlot(canvas) {
    canvas.on = () => {};
    Plotly.names.push(canvas.closest("figure").id);
    return Promise.resolve();
  },
};
for (const name of ["update", "relayout", "redraw"]) Plotly[name] = () => Promise.resolve();
"""
HOSTILE = ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium on the path"),
]

ORIGIN = provenance(n_layers=4, n_heads=3, settings={"control": "random-weights"})
SENTENCES = examples(3, n_layers=4, n_heads=3)
CONTROLS = (surface(ORIGIN, seed=6), dependency(ORIGIN, seed=6))
SURFACE = surface(ORIGIN, control=CONTROLS[0])
DEPENDENCY = dependency(ORIGIN, control=CONTROLS[1])


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(render(SURFACE, DEPENDENCY, SENTENCES), path)
    return path


@pytest.fixture(scope="module")
def light_report(tmp_path_factory):
    """The same report with a stand-in for Plotly, which is slow to load: for all but figures."""
    path = tmp_path_factory.mktemp("light") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "get_plotlyjs", lambda: STAND_IN)
        write_report(render(SURFACE, DEPENDENCY, SENTENCES), path)
    return path


def drawn(page, name):
    """Scrolls to a figure and waits until it is drawn."""
    page.locator(f"#{name}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#{name} .main-svg")
    return page.locator(f"#{name}")


def relations(page):
    rows = "[...document.querySelectorAll('#relation-table tbody tr:not([hidden])')]"
    return page.evaluate(f"{rows}.map((row) => row.dataset.relation)")


def shown(page, name):
    """`meta` of the traces of a figure that are shown."""
    return page.evaluate(
        "(name) => [...new Set(document.querySelector(`#${name} .canvas`).data"
        ".filter((trace) => trace.visible !== false).map((trace) => trace.meta))]",
        name,
    )


def until(page, condition, arg=None):
    """Waits for a condition; the page's policy lets Playwright's own waiting not evaluate it."""
    for _ in range(100):
        if page.evaluate(condition, arg):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came true: {condition}")


def readout(page):
    return page.locator("#readout").inner_text()


def choose_head(page, layer, head):
    page.select_option("#explorer-layer", str(layer))
    page.select_option("#explorer-head", str(head))


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (800, "dark"), (400, "light")])
def test_every_section_opens_and_nothing_is_wider_than_the_page(width, scheme, report, visit):
    page = visit(report, width=width, scheme=scheme)
    for name in ("surface-map", "best-heads", "relation-map"):
        assert drawn(page, name).locator(".main-svg").count() > 0
    assert page.locator("#arcs svg path.line").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    clipped = page.evaluate(
        "[...document.querySelectorAll('h1, h2, label, button, dt, dd, .figure-subtitle, .tile p')]"
        ".filter((one) => one.offsetParent && one.scrollWidth > one.clientWidth + 1"
        " && getComputedStyle(one).display !== 'inline').map((one) => one.textContent)"
    )
    assert clipped == []


def test_no_button_sends_a_figure_anywhere(report, visit):
    page = visit(report)
    buttons = drawn(page, "surface-map").locator(".modebar-btn").all()
    names = {button.get_attribute("data-title") for button in buttons}
    wanted = {"Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}
    assert names - wanted == {next(name for name in names if name.startswith("Download"))}


def test_every_figure_is_drawn_without_scrolling(light_report, visit):
    page = visit(light_report)
    until(page, "Plotly.names.includes('relation-map')")
    assert page.evaluate("window.scrollY") == 0


def test_the_table_is_sorted_by_click_and_by_keyboard(light_report, visit):
    page = visit(light_report)
    by_count = relations(page)
    head = page.locator("#relation-table th[data-key=held_out]")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    scores = DEPENDENCY.relations
    known = [label for label in by_count if scores[label].best.held_out_accuracy is not None]
    best_first = sorted(known, key=lambda label: -scores[label].best.held_out_accuracy)
    assert relations(page)[: len(known)] == best_first
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    # What has no value stays at the end.
    assert relations(page)[: len(known)] == best_first[::-1]
    assert page.locator("#relation-table [aria-sort]:not([aria-sort=none])").count() == 1


def test_the_table_is_filtered(light_report, visit):
    page = visit(light_report)
    page.fill("#relation-filter", "NSUBJ obl")
    assert relations(page) == ["nsubj", "obl", "obl:tmod", "nsubj:pass", "csubj", "obl:npmod"][
        :4
    ] + ["obl:npmod"]
    assert page.locator("#relation-count").inner_text() == "5 of 40 relations"
    page.fill("#relation-filter", "")
    page.check("#relation-clear")
    clear = [
        label
        for label, one in DEPENDENCY.relations.items()
        if one.gain_ci95 and one.gain_ci95[0] > 0
    ]
    assert relations(page) == clear


def test_the_measure_selector_changes_map_heading_and_explanation(report, visit):
    page = visit(report)
    drawn(page, "surface-map")
    page.select_option("#surface-map-measure", "entropy")
    until(page, "document.querySelector('#surface-map .figure-title').textContent === 'entropy'")
    assert shown(page, "surface-map") == ["entropy"]
    assert page.locator(".measure:visible").get_attribute("data-view") == "entropy"
    page.select_option("#surface-map-measure", "cls")
    assert "no [CLS] token" in page.locator("#surface-map .figure-subtitle").inner_text()
    page.select_option("#surface-map-measure", "punctuation")
    page.check("#surface-map-stretch")
    top = max(one.measures["punctuation"].values.max() for one in (SURFACE, CONTROLS[0]))
    until(
        page,
        "(top) => document.querySelector('#surface-map .canvas').data.some("
        "(trace) => trace.meta === 'punctuation' && Math.abs(trace.zmax - top) < 1e-5)",
        arg=float(top),
    )


def test_the_map_of_relations_follows_direction_and_relation(report, visit):
    page = visit(report)
    drawn(page, "relation-map")
    assert shown(page, "relation-map") == ["dependent_to_head", "offset"]
    page.select_option("#relation-map-direction", "head_to_dependent")
    until(
        page,
        "document.querySelector('#relation-map .figure-title').textContent.includes('head → dep')",
    )
    assert shown(page, "relation-map") == ["head_to_dependent", "offset"]
    page.locator("tr[data-relation=obj] button.relation").click()
    until(
        page,
        "document.querySelector('#relation-map .canvas').layout.shapes"
        ".some((shape) => shape.type === 'rect' && shape.y0 === 8.5)",
    )
    assert page.locator("tr.selected").get_attribute("data-relation") == "obj"


def test_a_head_of_the_table_opens_with_its_direction(light_report, visit):
    page = visit(light_report)
    best = DEPENDENCY.relations["det"].best
    page.locator("tr[data-relation=det] button.head").click()
    assert "In the tree: det of " in readout(page)
    assert [page.input_value(f"#explorer-{name}") for name in ("layer", "head")] == [
        str(best.layer),
        str(best.head),
    ]
    assert page.input_value("#explorer-direction") == best.direction


def test_the_explorer_follows_sentence_layer_and_head(light_report, visit):
    page = visit(light_report)
    choose_head(page, 1, 2)
    lines = "[...document.querySelectorAll('#arcs path.line')].map((one) => one.outerHTML).join()"
    pictures = [page.evaluate(lines)]
    assert "Attention head 1.2 finds" in readout(page)
    page.locator("[data-steps=head][data-by='-1']").click()
    assert "Attention head 1.1 finds" in readout(page)
    pictures.append(page.evaluate(lines))
    page.locator("[data-steps=sentence][data-by='1']").click()
    pictures.append(page.evaluate(lines))
    assert page.locator("#arcs .from .word").count() == len(SENTENCES[1].nodes)
    page.locator("#picker [aria-selected=true]").press("ArrowDown")
    assert "Attention head 2.1 finds" in readout(page)
    pictures.append(page.evaluate(lines))
    assert len(set(pictures)) == 4
    page.locator("#picker button").first.click()
    assert "Attention head 0.0 finds" in readout(page)
    assert page.locator("[data-steps=layer][data-by='-1']").is_disabled()


def test_weights_are_shown_on_words_and_on_lines(light_report, visit):
    page = visit(light_report)
    choose_head(page, 3, 1)
    attention = SENTENCES[0].attention[3, 1]
    page.locator("#arcs .from .word").nth(2).hover()
    amounts = page.locator("#arcs .to .amount").all_inner_texts()
    assert [float(amount) for amount in amounts] == pytest.approx(attention[2], abs=6e-4)
    lines = page.locator("#arcs path.line:not(.off)")
    assert {one.get_attribute("data-ends").split()[0] for one in lines.all()} == {"2"}
    to = page.locator("#arcs .to .word").nth(4)
    to.focus()
    amounts = page.locator("#arcs .from .amount").all_inner_texts()
    assert [float(amount) for amount in amounts] == pytest.approx(attention[:, 4], abs=6e-4)
    to.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.node") == "3"
    page.locator("#arcs path.target[data-weight]").last.dispatch_event(
        "pointerover", {"bubbles": True}
    )
    assert f"{np.sort(attention.ravel())[-1]:.3f}" in readout(page)


def test_a_selected_word_stays(light_report, visit):
    page = visit(light_report)
    word = page.locator("#arcs .from .word").nth(1)
    word.click()
    page.mouse.move(5, 5)
    assert word.get_attribute("aria-pressed") == "true"
    assert page.locator("#arcs path.line.off").count() > 0
    word.click()
    assert word.get_attribute("aria-pressed") == "false"


def test_special_tokens_threshold_and_tree(light_report, visit):
    page = visit(light_report)
    page.fill("#explorer-threshold", "0")
    n_nodes = len(SENTENCES[0].nodes)
    choose_head(page, 3, 1)
    n_seen = int((SENTENCES[0].attention[3, 1] * STEPS >= 0.5).sum())
    assert page.locator("#arcs path.line").count() == n_seen > n_nodes**2 / 2
    page.uncheck("#explorer-special")
    assert page.locator("#arcs .from .word").count() == n_nodes - 2
    assert "goes to hidden special tokens" in readout(page)
    page.fill("#explorer-threshold", "0.5")
    assert page.locator("#arcs path.line").count() < n_seen / 2
    arcs = sum(head > 0 for head in SENTENCES[0].heads)
    assert page.locator("#arcs path.tree").count() == arcs
    page.uncheck("#explorer-gold")
    assert page.locator("#arcs path.tree").count() == 0


def test_the_tree_turns_with_the_direction(light_report, visit):
    page = visit(light_report)
    ends = {}
    for direction in DIRECTIONS:
        page.select_option("#explorer-direction", direction)
        paths = page.locator("#arcs path.tree").all()
        ends[direction] = [path.get_attribute("data-ends") for path in paths]
        page.locator("#arcs path.target[data-relation]").first.dispatch_event(
            "pointerover", {"bubbles": True}
        )
        assert readout(page).startswith("Tree: ")
    forth, back = (ends[direction] for direction in DIRECTIONS)
    # Word 1 hangs on word 0, nodes count [CLS].
    assert forth[0] == "2 1"
    assert back == [" ".join(reversed(pair.split())) for pair in forth]


def test_hostile_names_do_not_run(tmp_path, visit):
    origin = provenance(n_layers=4, n_heads=3, name=HOSTILE[1], note=HOSTILE[0])
    words = example((*HOSTILE, "שלום"), n_layers=4, n_heads=3)
    words = replace(words, relations=(HOSTILE[1], "root", HOSTILE[0]), heads=(2, 0, 1))
    item = surface(origin).measures["self"]
    measures = {name: replace(item, name=name) for name in (*HOSTILE, "%{z}")}
    result = SurfaceResult(origin, SurfaceResult(origin, None, measures), measures)
    scores = dependency(origin, labels=(*HOSTILE, "%{y}", "a", "b", "c"))
    write_report(render(result, scores, [words]), tmp_path / "hostile.html")
    page = visit(tmp_path / "hostile.html")
    for name in ("surface-map", "best-heads", "relation-map"):
        drawn(page, name)
    assert page.locator("img").count() == 0
    page.select_option("#surface-map-measure", HOSTILE[1])
    assert page.locator("#surface-map .figure-title").inner_text().startswith("<img src=x")
    labels = page.locator("#relation-map .ytick text").all_text_contents()
    assert "%{y} (185)" in [label.strip() for label in labels]
    assert any("<img src=x" in label for label in labels)
    box = drawn(page, "surface-map").locator(".nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 12)
    hover = page.locator("#surface-map .hovertext").first
    hover.wait_for()
    assert "<img src=x" in hover.text_content()
    assert page.locator("#arcs .from .word bdi").all_inner_texts()[1] == HOSTILE[0]
    page.locator("#arcs .from .word").nth(2).hover()
    assert HOSTILE[1] in readout(page)


def test_a_cell_tells_its_figures_and_opens_its_head(report, visit):
    page = visit(report)
    box = drawn(page, "surface-map").locator(".nsewdrag").first.bounding_box()
    # The last of 4 rows, the second of 3 columns.
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 7 / 8)
    hover = page.locator("#surface-map .hovertext").first
    hover.wait_for()
    item = SURFACE.measures["previous"]
    told = hover.text_content()
    for part in (
        "layer 3, head 1",
        f"{item.values[3, 1]:.3f} probability",
        f"{item.low[3, 1]:.3f} to {item.high[3, 1]:.3f}",
        "uniform attention: 0.070",
    ):
        assert part in told
    page.mouse.down()
    page.mouse.up()
    until(page, "document.querySelector('#readout').textContent.includes('head 3.1 ')")
    page.emulate_media(color_scheme="dark")
    until(page, "document.querySelector('#surface-map .canvas').data[0].reversescale === false")


def test_figures_of_one_result_open_too(tmp_path, visit):
    write_result(DEPENDENCY, tmp_path / "out.html")
    page = visit(tmp_path / "out.html", scheme="dark")
    drawn(page, "best-heads")
    drawn(page, "relation-map")
    assert (
        page.evaluate("document.querySelector('#relation-map .canvas').data[0].reversescale")
        is False
    )


def test_a_layer_that_cannot_be_seen_is_said_to_be_none(visit, tmp_path, monkeypatch):
    monkeypatch.setattr(document, "get_plotlyjs", lambda: STAND_IN)
    attention = SENTENCES[0].attention.copy()
    attention[2] = np.nan
    path = tmp_path / "report.html"
    write_report(render(SURFACE, None, [replace(SENTENCES[0], attention=attention)]), path)
    page = visit(path)
    choose_head(page, 2, 1)
    assert readout(page) == f"Layer 2 is not available: {NOT_TOKENS}."
    assert page.locator("#arcs svg path").count() == 0
    page.locator(".from .word").first.hover()
    assert readout(page) == f"Layer 2 is not available: {NOT_TOKENS}."
    cells = page.locator("#picker button")
    assert cells.nth(3 * 2).inner_text() == "×"
    assert cells.nth(0).inner_text() == ""
    choose_head(page, 1, 1)
    assert "attends most to" in readout(page)


@pytest.mark.parametrize(("height", "n_drawn"), [(900, 0), (20_000, 3)])
def test_figures_in_view_do_not_wait_for_an_idle_page(visit, light_report, height, n_drawn):
    page = visit(light_report, height=height, before="window.requestIdleCallback = () => 0;")
    assert page.evaluate("Plotly.names.length") == n_drawn


def test_all_figures_are_drawn_for_print(visit, light_report):
    page = visit(light_report, before="window.requestIdleCallback = () => 0;")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("Plotly.names.length") == 3
