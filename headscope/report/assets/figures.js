"use strict";
/* Draws the figures, those in view first, in the colours of the page. */
headscope.figures = (() => {
  /* Plotly's own set has a button that sends the figure to a server; the list leaves it out. */
  const CONFIG = {
    responsive: true,
    displaylogo: false,
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  /* Pixels that fit on a sheet of A4 or letter between its margins. */
  const PAPER = 680;
  const figures = new Map();

  function read(block) {
    const document_ = JSON.parse(document.getElementById(`${block.id}-data`).textContent);
    return { block, canvas: block.querySelector(".canvas"), ...document_, drawn: null };
  }

  /* Colours that depend on the ground; everything else is in the figure. */
  function layoutColours() {
    const ink = headscope.css("--ink");
    return {
      "font.color": headscope.css("--muted"),
      "hoverlabel.bgcolor": headscope.css("--raised"),
      "hoverlabel.bordercolor": headscope.css("--line-strong"),
      "hoverlabel.font.color": ink,
      "modebar.color": headscope.css("--line-strong"),
      "modebar.activecolor": ink,
    };
  }

  function heatTraces(figure) {
    return figure.data.flatMap((trace, place) => (trace.reversescale === undefined ? [] : [place]));
  }

  function paint(figure) {
    const heats = heatTraces(figure);
    const change = heats.length ? { reversescale: !headscope.dark.matches } : {};
    return Plotly.update(figure.canvas, change, layoutColours(), heats.length ? heats : undefined);
  }

  /* On narrow screens margins and colour bar give way; the caption names the units as well. */
  function fit(figure) {
    if (figure.canvas.clientWidth >= 560) return;
    figure.layout.margin = { ...figure.layout.margin, r: 6, l: 40 };
    for (const trace of figure.data) {
      if (trace.colorbar) Object.assign(trace.colorbar, { thickness: 6, title: undefined });
    }
  }

  function draw(figure) {
    if (figure.drawn) return figure.drawn;
    fit(figure);
    figure.layout.dragmode = false;
    figure.drawn = Plotly.newPlot(figure.canvas, figure.data, figure.layout, CONFIG).then(() => {
      figure.canvas.on("plotly_click", (event) => clicked(figure, event.points[0]));
      return paint(figure);
    });
    return figure.drawn;
  }

  /* A cell of a map opens its head in the explorer; `layout.meta` says what the columns are. */
  function clicked(figure, point) {
    const meta = figure.layout.meta;
    if (!headscope.open || !meta || !Array.isArray(point.pointIndex)) return;
    const [row, column] = point.pointIndex;
    if (meta.columns === "heads") {
      headscope.open({ layer: row, head: column });
    } else if (point.data.meta !== "offset") {
      headscope.open({
        layer: Math.floor(column / meta.n_heads),
        head: column % meta.n_heads,
        direction: point.data.meta,
        relation: meta.rows[row],
      });
    }
  }

  function choose(figure, menu, place, name) {
    const [traces, layout] = figure.menus[menu][place];
    const rest = { ...layout };
    const caption = { "title.text": ".figure-title", "title.subtitle.text": ".figure-subtitle" };
    for (const [key, target] of Object.entries(caption)) {
      if (!(key in rest)) continue;
      figure.block.querySelector(target).textContent = plain(rest[key]);
      delete rest[key];
    }
    for (const part of document.querySelectorAll(`[data-follows="${figure.block.id}"] [data-view]`)) {
      part.hidden = part.dataset.view !== name;
    }
    return draw(figure).then(() => Plotly.update(figure.canvas, traces, rest));
  }

  /* Colours up to the largest value of each map, or back to the range the figure came with. */
  function stretch(figure, on) {
    return draw(figure).then(() => {
      for (const place of heatTraces(figure)) {
        const trace = figure.data[place];
        trace.came ??= trace.zmax;
        trace.zmax = on ? figure.tops[place] || 1 : trace.came;
      }
      return Plotly.redraw(figure.canvas);
    });
  }

  /* Plotly's labels are escaped; a detached text area turns them back without running anything. */
  function plain(label) {
    const area = document.createElement("textarea");
    area.innerHTML = label;
    return area.value;
  }

  /* Puts a frame round one row of the map of relations. */
  function markRow(relation) {
    const figure = figures.get("relation-map");
    if (!figure) return null;
    const row = figure.layout.meta.rows.indexOf(relation);
    if (row < 0) return null;
    const frame = {
      type: "rect", xref: "paper", x0: 0, x1: 1, yref: "y", y0: row - 0.5, y1: row + 0.5,
      line: { width: 2, color: headscope.css("--tree") },
    };
    const shapes = [...(figure.layout.shapes || []), frame];
    return draw(figure)
      .then(() => Plotly.relayout(figure.canvas, { shapes }))
      .then(() => scrollToRow(figure, row));
  }

  function scrollToRow(figure, row) {
    const margin = figure.layout.margin;
    const rows = figure.canvas.clientHeight - margin.t - margin.b;
    const down = margin.t + (rows * (row + 0.5)) / figure.layout.meta.rows.length;
    const top = figure.canvas.getBoundingClientRect().top + window.scrollY;
    window.scrollTo({ top: top + down - window.innerHeight / 2 });
  }

  function setUp(block) {
    const figure = read(block);
    figures.set(block.id, figure);
    block.querySelectorAll("select").forEach((select, menu) => {
      select.addEventListener("change", () =>
        choose(figure, menu, select.selectedIndex, select.value));
    });
    const box = block.querySelector("input.stretch");
    if (box) box.addEventListener("change", () => stretch(figure, box.checked));
  }

  function inView(figure) {
    const place = figure.canvas.getBoundingClientRect();
    return place.top < window.innerHeight && place.bottom > 0;
  }

  /* What is in view at once, for a picture of the page may be taken as soon as it has loaded; then
     one figure after the other, each when the page has nothing better to do, but soon. */
  function drawAll(all) {
    all.filter(inView).forEach(draw);
    drawOneByOne(all);
  }

  function drawOneByOne(waiting) {
    if (!waiting.length) return;
    const idle = window.requestIdleCallback || ((work) => setTimeout(work, 1));
    idle(() => draw(waiting[0]).then(() => drawOneByOne(waiting.slice(1))), { timeout: 500 });
  }

  function resize(size) {
    for (const figure of figures.values()) {
      draw(figure).then(() => Plotly.relayout(figure.canvas, size));
    }
  }

  function start() {
    document.querySelectorAll("figure.plot").forEach(setUp);
    drawAll([...figures.values()]);
    headscope.dark.addEventListener("change", () => {
      for (const figure of figures.values()) {
        if (figure.drawn) paint(figure);
      }
    });
    window.addEventListener("beforeprint", () => resize({ width: PAPER }));
    window.addEventListener("afterprint", () => resize({ width: null, autosize: true }));
  }

  start();
  return { all: figures, markRow };
})();
