"use strict";
for (const block of document.querySelectorAll("figure.plot")) {
  const data = JSON.parse(document.getElementById(block.id + "-data").textContent);
  Plotly.newPlot(block.querySelector(".canvas"), data.data, data.layout, { responsive: true, displaylogo: false });
}
