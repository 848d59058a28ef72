"use strict";
// A graph, laid out by dagre, drawn as SVG: drag to move, wheel to zoom, click to pick.
const SVG = "http://www.w3.org/2000/svg";
const svg = (tag, attrs = {}, ...inner) => {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attrs)) made.setAttribute(key, value);
  made.append(...inner);
  return made;
};

function layout(nodes, edges) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 34, marginx: 20, marginy: 20, ranker: nodes.length > 400 ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) {
    const lines = node.lines || [node.label];
    graph.setNode(node.id, { width: Math.max(...lines.map((l) => l.length)) * 7.3 + 20, height: lines.length * 15 + 12 });
  }
  for (const [source, target] of edges) if (graph.hasNode(source) && graph.hasNode(target)) graph.setEdge(source, target);
  dagre.layout(graph);
  return graph;
}

function drawGraph(nodes, edges, onPick) {
  const placed = layout(nodes, edges);
  const root = svg("svg", { class: "graph", role: "img", "aria-label": say`graph` });
  const moved = svg("g");
  root.append(svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    svg("path", { d: "M0,0 L8,4 L0,8 z", fill: "var(--dim)" }))), moved);
  const edgeOf = [];
  for (const { v, w } of placed.edges()) {
    const points = placed.edge(v, w).points;
    const path = svg("path", { class: "edge", d: "M" + points.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`).join("L"), "marker-end": "url(#tip)" });
    edgeOf.push({ v, w, path });
    moved.append(path);
  }
  const boxOf = new Map();
  for (const node of nodes) {
    const { x, y, width, height } = placed.node(node.id);
    const lines = node.lines || [node.label];
    const box = svg("g", { class: "node", tabindex: 0, role: "button", "aria-label": node.label, transform: `translate(${x - width / 2},${y - height / 2})` },
      svg("rect", { width, height, rx: node.kind === "input" || node.kind === "output" || node.kind === "param" ? height / 2 : 5, fill: `var(--${node.kind}, var(--op))` }));
    lines.forEach((line, n) => box.append(svg("text", { x: width / 2, y: 18 + n * 15, "text-anchor": "middle", "font-size": n ? 10.5 : 12, "font-weight": n ? 400 : 600 }, line)));
    box.dataset.id = node.id;
    box.addEventListener("click", () => onPick(node));
    box.addEventListener("keydown", (e) => { if (e.key === "Enter") onPick(node); });
    boxOf.set(node.id, box);
    moved.append(box);
  }
  const { width, height } = placed.graph();
  const view = { x: 0, y: 0, k: 1 };
  const show = () => moved.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.k})`);
  const fit = () => {
    const room = root.getBoundingClientRect();
    view.k = Math.min(1.2, Math.max(0.12, Math.min(room.width / width, room.height / height)));
    if (view.k < 0.45) view.k = Math.min(0.8, room.width / width > 0.45 ? room.width / width : 0.8);
    view.x = Math.max(0, (room.width - width * view.k) / 2);
    view.y = 0;
    show();
  };
  const center = (id) => {
    if (!boxOf.has(id)) return;
    const room = root.getBoundingClientRect(), at = placed.node(id);
    view.x = room.width / 2 - at.x * view.k;
    view.y = room.height / 2 - at.y * view.k;
    show();
  };
  root.addEventListener("wheel", (e) => {
    e.preventDefault();
    const room = root.getBoundingClientRect(), by = Math.exp(-e.deltaY * 0.0015);
    const k = Math.min(4, Math.max(0.05, view.k * by)), px = e.clientX - room.left, py = e.clientY - room.top;
    view.x = px - (px - view.x) * k / view.k;
    view.y = py - (py - view.y) * k / view.k;
    view.k = k;
    show();
  }, { passive: false });
  let from = null;
  root.addEventListener("pointerdown", (e) => { from = { x: e.clientX - view.x, y: e.clientY - view.y }; });
  root.addEventListener("pointermove", (e) => { if (from && e.buttons) { view.x = e.clientX - from.x; view.y = e.clientY - from.y; show(); } });
  root.addEventListener("pointerup", () => { from = null; });
  const mark = (ids, near = []) => {
    for (const [id, box] of boxOf) { box.classList.toggle("picked", ids.includes(id)); box.classList.toggle("near", near.includes(id)); }
    for (const { v, w, path } of edgeOf) path.classList.toggle("picked", ids.includes(v) || ids.includes(w));
  };
  return { root, fit, center, mark };
}
