"use strict";
/* Example sentences: their data blocks are read only when a sentence is looked at. */
headscope.sentences = (() => {
  const STEPS = 65535;
  const read = new Map();

  /* Base64 of little-endian uint16, whatever the byte order of this machine. */
  function unpack(encoded) {
    const text = atob(encoded);
    const bytes = new Uint8Array(text.length);
    for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
    const view = new DataView(bytes.buffer);
    const numbers = new Uint16Array(text.length / 2);
    for (let place = 0; place < numbers.length; place += 1) {
      numbers[place] = view.getUint16(2 * place, true);
    }
    return numbers;
  }

  function load(place) {
    if (!read.has(place)) {
      const data = JSON.parse(document.getElementById(`example-${place}`).textContent);
      data.attention = unpack(data.attention);
      for (const direction of Object.keys(data.predicted)) {
        data.predicted[direction] = unpack(data.predicted[direction]);
      }
      data.nodeOf = new Map(
        data.wordOf.flatMap((word, node) => (word === null ? [] : [[word, node]])));
      read.set(place, data);
    }
    return read.get(place);
  }

  /* Attention of one head from one node to another. */
  function weight(sentence, layer, head, from, to) {
    const [, nHeads, n] = sentence.shape;
    return sentence.attention[((layer * nHeads + head) * n + from) * n + to] / STEPS;
  }

  /* The tree's arcs as nodes, each with its relation and whether the head finds it. */
  function arcs(sentence, layer, head, direction) {
    const nWords = sentence.heads.length;
    const start = (layer * sentence.shape[1] + head) * nWords;
    const found = [];
    sentence.heads.forEach((number, word) => {
      const [dependent, governor] = [sentence.nodeOf.get(word), sentence.nodeOf.get(number - 1)];
      if (number === 0 || dependent === undefined || governor === undefined) return;
      found.push({
        dependent,
        governor,
        relation: sentence.relations[word],
        hit: sentence.predicted[direction][start + word] === number,
      });
    });
    return found;
  }

  /* The first sentence that has the relation, the given one before all others; -1 if none has. */
  function having(relation, given, count) {
    const order = [given, ...Array.from({ length: count }, (_, place) => place)];
    const place = order.find((one) => load(one).relations.includes(relation));
    return place === undefined ? -1 : place;
  }

  return { load, weight, arcs, having };
})();
