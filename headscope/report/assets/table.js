"use strict";
/* The table of relations: sorted by its column heads, filtered by its box, tied to the map. */
(() => {
  const table = document.getElementById("relation-table");
  if (!table) return;
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const box = document.getElementById("relation-filter");
  const onlyClear = document.getElementById("relation-clear");
  const count = document.getElementById("relation-count");

  /* Numbers by size, names by letter; rows without a value always come last. */
  function compare(column, turn) {
    const name = heads[column].dataset.key === "relation";
    return (first, second) => {
      const [a, b] = [first, second].map((row) => row.cells[column].dataset.value);
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return turn * (name ? a.localeCompare(b) : Number(a) - Number(b));
    };
  }

  function sortBy(column) {
    const head = heads[column];
    const rising = ["relation", "head", "offset"].includes(head.dataset.key);
    const before = head.getAttribute("aria-sort");
    const ascending = before === "none" ? rising : before === "descending";
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const rows = [...body.rows].sort(compare(column, ascending ? 1 : -1));
    body.append(...rows);
  }

  function filter() {
    const wanted = box.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const label = row.dataset.relation.toLowerCase();
      const found = !wanted.length || wanted.some((part) => label.includes(part));
      row.hidden = !found || (onlyClear.checked && !row.classList.contains("clear"));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${body.rows.length} relations`;
  }

  function select(row) {
    for (const other of body.rows) {
      other.classList.toggle("selected", other === row);
      other.querySelector("button.relation").setAttribute("aria-pressed", String(other === row));
    }
    headscope.figures.markRow(row.dataset.relation);
  }

  heads.forEach((head, column) =>
    head.querySelector("button").addEventListener("click", () => sortBy(column)));
  box.addEventListener("input", filter);
  onlyClear.addEventListener("change", filter);
  body.addEventListener("click", (event) => {
    const button = event.target.closest("button.relation");
    if (button) select(button.closest("tr"));
  });
})();
