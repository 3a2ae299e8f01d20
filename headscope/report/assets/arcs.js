"use strict";
/* The drawing of one head on one sentence: two columns of words with lines between them. */
headscope.arcs = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  /* A line from the left to the right column, level at both ends. */
  function path(width, y0, y1) {
    const bend = width * 0.4;
    return `M0 ${y0} C${bend} ${y0} ${width - bend} ${y1} ${width} ${y1}`;
  }

  function line(parent, shape, attributes, classes) {
    const node = document.createElementNS(SVG, "path");
    node.setAttribute("d", shape);
    node.setAttribute("class", classes);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    parent.append(node);
    return node;
  }

  /* One column of words; each is a button that can be pointed at, focused and kept. */
  function column(list, nodes, sentence) {
    list.replaceChildren(...nodes.map((node) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      const word = document.createElement("bdi");
      const amount = document.createElement("span");
      button.type = "button";
      button.dataset.node = node;
      button.className = sentence.wordOf[node] === null ? "word special" : "word";
      button.setAttribute("aria-pressed", "false");
      word.textContent = sentence.nodes[node];
      amount.className = "amount";
      button.append(word, amount);
      item.append(button);
      return item;
    }));
  }

  /* Weights of all lines that are shown, weak ones first so that strong ones lie on top. */
  function weights(view) {
    const lines = [];
    for (const from of view.nodes) {
      for (const to of view.nodes) {
        const weight = headscope.sentences.weight(
          view.sentence, view.layer, view.head, from, to);
        if (weight >= view.threshold && weight > 0) lines.push({ from, to, weight });
      }
    }
    return lines.sort((first, second) => first.weight - second.weight);
  }

  function drawLines(svg, view, size) {
    const level = new Map(view.nodes.map((node, place) => [node, (place + 0.5) * size.row]));
    for (const { from, to, weight } of weights(view)) {
      const shape = path(size.width, level.get(from), level.get(to));
      const strength = { "stroke-width": 0.75 + 5 * weight, "stroke-opacity": 0.12 + 0.88 * weight };
      line(svg, shape, strength, "line").dataset.ends = `${from} ${to}`;
      const wide = line(svg, shape, {}, "target");
      Object.assign(wide.dataset, { from, to, weight });
    }
    return level;
  }

  function drawTree(svg, view, size, level) {
    for (const arc of view.arcs) {
      const back = view.direction === "head_to_dependent";
      const [from, to] = back ? [arc.governor, arc.dependent] : [arc.dependent, arc.governor];
      const shape = path(size.width, level.get(from), level.get(to));
      line(svg, shape, {}, arc.hit ? "tree hit" : "tree").dataset.ends = `${from} ${to}`;
      const wide = line(svg, shape, {}, "target");
      Object.assign(wide.dataset, { from, to, relation: arc.relation, hit: arc.hit });
    }
  }

  function draw(root, view) {
    column(root.querySelector(".from"), view.nodes, view.sentence);
    column(root.querySelector(".to"), view.nodes, view.sentence);
    const svg = root.querySelector("svg");
    const row = root.querySelector("li").getBoundingClientRect().height;
    const size = { width: svg.clientWidth, row };
    svg.replaceChildren();
    svg.setAttribute("height", row * view.nodes.length);
    const level = drawLines(svg, view, size);
    drawTree(svg, view, size, level);
  }

  /* Leaves only the lines of one word, and writes the weights beside the words at the far end. */
  function focus(root, view, side, node) {
    const end = side === "from" ? 0 : 1;
    for (const one of root.querySelectorAll("svg [data-ends]")) {
      const ends = one.dataset.ends.split(" ").map(Number);
      one.classList.toggle("off", node !== null && ends[end] !== node);
    }
    for (const button of root.querySelectorAll(".word")) {
      const list = button.closest("ol").classList.contains("from") ? "from" : "to";
      const other = Number(button.dataset.node);
      const far = node !== null && list !== side;
      const pair = side === "from" ? [node, other] : [other, node];
      const weight = far
        ? headscope.sentences.weight(view.sentence, view.layer, view.head, ...pair) : 0;
      button.querySelector(".amount").textContent = far ? headscope.number(weight) : "";
      button.style.setProperty("--weight", far ? weight : 0);
      button.classList.toggle("on", node !== null && list === side && other === node);
    }
  }

  return { draw, focus };
})();
