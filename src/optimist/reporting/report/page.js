"use strict";
const scheme = matchMedia("(prefers-color-scheme: dark)");
const isTouched = matchMedia("(pointer: coarse)").matches;

function repaint(key, value) {
  if (!scheme.matches || !key.endsWith("color")) return value;
  return Array.isArray(value) ? value.map((color) => DARK[color] ?? color) : (DARK[value] ?? value);
}

async function draw(chart) {
  const { data, layout } = JSON.parse(chart.querySelector("script").textContent, repaint);
  layout.dragmode = isTouched ? false : "zoom"; // a finger on a chart scrolls the page
  layout.uirevision = "kept"; // what the legend hides stays hidden when the colors change
  chart.plot ??= chart.appendChild(document.createElement("div"));
  await Plotly.react(chart.plot, data, layout, { responsive: true, displayModeBar: false });
}

async function drawAll() {
  for (const chart of document.querySelectorAll(".chart")) {
    await draw(chart);
    await new Promise((resume) => setTimeout(resume)); // the page answers while the rest is drawn
  }
  document.body.dataset.drawn = "all";
}

for (const frame of document.querySelectorAll("figure .frame")) {
  const toggle = () => frame.parentElement.classList.toggle("large");
  frame.addEventListener("click", toggle);
  frame.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
}
scheme.addEventListener("change", drawAll);
drawAll();
