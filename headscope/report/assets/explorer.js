"use strict";
/* The sentence explorer: what is chosen, the controls that choose it, and what is read out. */
(() => {
  const root = document.getElementById("arcs");
  if (!root) return;
  const { sentences, arcs } = headscope;
  const field = (name) => document.getElementById(`explorer-${name}`);
  const picker = document.getElementById("picker");
  const readout = document.getElementById("readout");
  const start = JSON.parse(document.getElementById("explorer-start").textContent);
  const state = { sentence: 0, ...start, kept: null };
  let view = null;

  function nodesOf(sentence) {
    const all = sentence.nodes.map((_, node) => node);
    return field("special").checked ? all : all.filter((node) => sentence.wordOf[node] !== null);
  }

  function look() {
    const sentence = sentences.load(state.sentence);
    const unseen = sentence.unseen.includes(state.layer);
    const found = unseen
      ? [] : sentences.arcs(sentence, state.layer, state.head, state.direction);
    return {
      sentence,
      unseen,
      layer: state.layer,
      head: state.head,
      direction: state.direction,
      nodes: nodesOf(sentence),
      threshold: Number(field("threshold").value),
      found,
      arcs: field("gold").checked ? found : [],
    };
  }

  /* What one line says about the view, when nothing is pointed at. */
  function summary() {
    if (view.unseen) return `Layer ${view.layer} is not available: ${view.sentence.whyUnseen}.`;
    const hits = view.found.filter((arc) => arc.hit).length;
    const name = `Attention head ${view.layer}.${view.head}`;
    const parts = [`${name} finds ${hits} of the ${view.found.length} arcs of this sentence.`];
    if (!field("special").checked) {
      const hidden = view.sentence.wordOf.flatMap((word, node) => (word === null ? [node] : []));
      let mass = 0;
      for (const from of view.nodes) {
        for (const to of hidden) {
          mass += sentences.weight(view.sentence, view.layer, view.head, from, to);
        }
      }
      const share = view.nodes.length ? mass / view.nodes.length : 0;
      if (hidden.length) {
        parts.push(`${headscope.number(share)} of the words’ attention goes to hidden special tokens.`);
      }
    }
    return parts.join(" ");
  }

  function say(text) {
    readout.textContent = text;
  }

  function word(node) {
    return `“\u2068${view.sentence.nodes[node]}\u2069”`;
  }

  function sayWord(side, node) {
    const of = (other) => (side === "from"
      ? sentences.weight(view.sentence, view.layer, view.head, node, other)
      : sentences.weight(view.sentence, view.layer, view.head, other, node));
    const top = [...view.nodes].sort((a, b) => of(b) - of(a)).slice(0, 3)
      .map((other) => `${word(other)} (${headscope.number(of(other))})`).join(", ");
    const tree = view.found.filter((arc) => arc.dependent === node).map((arc) =>
      ` In the tree: ${arc.relation} of ${word(arc.governor)}.`).join("");
    const verb = side === "from" ? "attends most to" : "is attended to most by";
    say(`${word(node)} ${verb} ${top}.${tree}`);
  }

  function sayLine(data) {
    const [from, to] = [Number(data.from), Number(data.to)];
    const weight = headscope.number(
      sentences.weight(view.sentence, view.layer, view.head, from, to));
    if (data.relation === undefined) {
      say(`${word(from)} → ${word(to)}: ${weight}`);
      return;
    }
    const back = view.direction === "head_to_dependent";
    const [dependent, governor] = back ? [to, from] : [from, to];
    const found = data.hit === "true" ? "found by this head" : "not found by this head";
    say(`Tree: ${word(dependent)} is ${data.relation} of ${word(governor)}, ${found}; `
      + `attention ${word(from)} → ${word(to)}: ${weight}`);
  }

  function show(side, node) {
    const pointed = view.unseen ? null : node;
    arcs.focus(root, view, side, pointed);
    if (pointed === null) say(summary());
    else sayWord(side, node);
  }

  function settle() {
    const kept = state.kept;
    if (kept && view.nodes.includes(kept.node)) show(kept.side, kept.node);
    else show("from", null);
    for (const button of root.querySelectorAll(".word")) {
      const side = button.closest("ol").classList.contains("from") ? "from" : "to";
      const on = kept !== null && kept.side === side && kept.node === Number(button.dataset.node);
      button.setAttribute("aria-pressed", String(on));
    }
  }

  function paintPicker() {
    const { found, unseen, whyUnseen, arcs: count } = view.sentence;
    document.getElementById("picker-caption").textContent =
      `Share of this sentence’s ${count} arcs that each attention head finds; `
      + "rows are layers, columns heads. Select one, or use the arrow keys.";
    for (const cell of picker.querySelectorAll("button")) {
      const [layer, head] = [Number(cell.dataset.layer), Number(cell.dataset.head)];
      const share = found[state.direction][layer][head];
      const chosen = layer === state.layer && head === state.head;
      const gap = unseen.includes(layer);
      const label = gap
        ? `attention head ${layer}.${head}: not available, ${whyUnseen}`
        : `attention head ${layer}.${head}: ${headscope.number(share)} of the arcs`;
      cell.style.backgroundColor = gap ? "" : headscope.colour(share);
      cell.textContent = gap ? "×" : "";
      cell.title = label;
      cell.setAttribute("aria-label", label);
      cell.setAttribute("aria-selected", String(chosen));
      cell.tabIndex = chosen ? 0 : -1;
    }
  }

  function update() {
    view = look();
    field("sentence").value = state.sentence;
    field("layer").value = state.layer;
    field("head").value = state.head;
    field("direction").value = state.direction;
    field("threshold-value").textContent = view.threshold.toFixed(2);
    for (const button of document.querySelectorAll("[data-steps]")) {
      const list = field(button.dataset.steps);
      const place = list.selectedIndex + Number(button.dataset.by);
      button.disabled = place < 0 || place >= list.options.length;
    }
    paintPicker();
    arcs.draw(root, view);
    settle();
  }

  function makePicker() {
    const [nLayers, nHeads] = sentences.load(0).shape;
    picker.style.setProperty("--columns", nHeads);
    picker.replaceChildren(...Array.from({ length: nLayers }, (_, layer) => {
      const row = document.createElement("div");
      row.setAttribute("role", "row");
      row.append(...Array.from({ length: nHeads }, (__, head) => {
        const cell = document.createElement("button");
        cell.type = "button";
        cell.setAttribute("role", "gridcell");
        Object.assign(cell.dataset, { layer, head });
        return cell;
      }));
      return row;
    }));
  }

  const KEYS = {
    ArrowLeft: ["head", -1], ArrowRight: ["head", 1], ArrowUp: ["layer", -1],
    ArrowDown: ["layer", 1], PageUp: ["sentence", -1], PageDown: ["sentence", 1],
  };

  function step(name, by) {
    const place = state[name] + by;
    if (place >= 0 && place < field(name).options.length) choose(name, place);
  }

  function choose(name, place) {
    state[name] = place;
    if (name === "sentence") state.kept = null;
    update();
  }

  function pickerKeys(event) {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    step(...KEYS[event.key]);
    picker.querySelector("[aria-selected='true']").focus();
  }

  /* Up and down move along the words, left and right to the other column. */
  function wordKeys(event) {
    const item = event.target.closest("li");
    if (!item || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const across = event.key === "ArrowLeft" ? ".from" : ".to";
    const place = [...item.parentNode.children].indexOf(item);
    const target = {
      ArrowUp: item.previousElementSibling,
      ArrowDown: item.nextElementSibling,
    }[event.key] || (event.key === "ArrowLeft" || event.key === "ArrowRight"
      ? root.querySelector(across).children[place] : null);
    if (target) target.querySelector("button").focus();
  }

  function pointed(event) {
    const button = event.target.closest(".word");
    if (button) {
      const side = button.closest("ol").classList.contains("from") ? "from" : "to";
      show(side, Number(button.dataset.node));
    } else if (event.target.classList.contains("target")) {
      sayLine(event.target.dataset);
    }
  }

  function keep(event) {
    const button = event.target.closest(".word");
    if (!button) return;
    const side = button.closest("ol").classList.contains("from") ? "from" : "to";
    const node = Number(button.dataset.node);
    const same = state.kept && state.kept.side === side && state.kept.node === node;
    state.kept = same ? null : { side, node };
    settle();
  }

  function listen() {
    for (const name of ["sentence", "layer", "head"]) {
      field(name).addEventListener("change", () => choose(name, field(name).selectedIndex));
    }
    field("direction").addEventListener("change", () => {
      state.direction = field("direction").value;
      update();
    });
    field("threshold").addEventListener("input", update);
    for (const name of ["special", "gold"]) field(name).addEventListener("change", update);
    for (const button of document.querySelectorAll("[data-steps]")) {
      button.addEventListener("click", () => step(button.dataset.steps, Number(button.dataset.by)));
    }
    picker.addEventListener("click", (event) => {
      const cell = event.target.closest("button");
      if (!cell) return;
      Object.assign(state, { layer: Number(cell.dataset.layer), head: Number(cell.dataset.head) });
      update();
    });
    picker.addEventListener("keydown", pickerKeys);
    root.addEventListener("pointerover", pointed);
    root.addEventListener("focusin", pointed);
    root.addEventListener("pointerleave", settle);
    root.addEventListener("focusout", settle);
    root.addEventListener("click", keep);
    root.addEventListener("keydown", wordKeys);
    let width = root.clientWidth;
    new ResizeObserver(() => {
      if (root.clientWidth === width) return;
      width = root.clientWidth;
      window.requestAnimationFrame(update);
    }).observe(root);
    headscope.dark.addEventListener("change", paintPicker);
  }

  /* The first word that bears the relation, in the column in which its arc ends or begins. */
  function bearer(relation) {
    const sentence = sentences.load(state.sentence);
    const arc = sentences.arcs(sentence, state.layer, state.head, state.direction)
      .find((one) => one.relation === relation);
    const side = state.direction === "dependent_to_head" ? "from" : "to";
    return arc ? { side, node: arc.dependent } : null;
  }

  headscope.open = ({ layer, head, direction, relation }) => {
    Object.assign(state, { layer, head, kept: null });
    if (direction) state.direction = direction;
    if (relation) {
      const place = sentences.having(relation, state.sentence, field("sentence").options.length);
      if (place >= 0) state.sentence = place;
      state.kept = bearer(relation);
    }
    update();
    document.getElementById("explorer").scrollIntoView();
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest("button.head");
    if (!link) return;
    const { layer, head, direction, relation } = link.dataset;
    headscope.open({ layer: Number(layer), head: Number(head), direction, relation });
  });
  makePicker();
  listen();
  update();
})();
