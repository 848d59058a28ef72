"use strict";
// Charts: memory over time, and the roofline.
const bytes = (n) => n >= 1 << 30 ? `${(n / (1 << 30)).toFixed(2)} GiB` : n >= 1 << 20 ? `${(n / (1 << 20)).toFixed(2)} MiB` : n >= 1024 ? `${(n / 1024).toFixed(1)} KiB` : `${n} B`;
const us = (n) => n === null || n === undefined ? "" : n >= 100 ? n.toFixed(0) : n.toPrecision(3);

function drawMemory(memory, onPick) {
  const columns = memory.launches.length, wide = Math.max(6, Math.min(26, 1100 / columns)), left = 80, high = 420, top = 14;
  const root = svg("svg", { width: left + columns * wide + 20, height: high + top + 40, role: "img", "aria-label": say`memory over time` });
  const y = (at) => top + high - at / Math.max(1, memory.total) * high;
  for (let n = 0; n <= 4; n++) {
    const at = memory.total * n / 4;
    root.append(svg("line", { x1: left, x2: left + columns * wide, y1: y(at), y2: y(at), stroke: "var(--line)" }),
      svg("text", { x: left - 8, y: y(at) + 4, "text-anchor": "end", "font-size": 11 }, bytes(Math.round(at))));
  }
  memory.buffers.forEach((b, n) => {
    const box = svg("rect", { x: left + b.first * wide, width: (b.last - b.first + 1) * wide - 1, y: y(b.offset + b.bytes), height: Math.max(1, y(b.offset) - y(b.offset + b.bytes)),
      fill: `hsl(${n * 47 % 360} 55% 60% / .75)`, stroke: "var(--back)", tabindex: 0 });
    box.append(svg("title", {}, `${b.name}  ${b.type}  ${bytes(b.bytes)}\n${say`launches ${memory.launches[b.first]} to ${memory.launches[b.last]}`}`));
    box.style.cursor = "pointer";
    box.addEventListener("click", () => onPick(b.name));
    root.append(box);
    const room = (b.last - b.first + 1) * wide;
    if (y(b.offset) - y(b.offset + b.bytes) > 13 && room > b.name.length * 6.5)
      root.append(svg("text", { x: left + b.first * wide + 4, y: y(b.offset + b.bytes) + 12, "font-size": 10.5, "pointer-events": "none" }, b.name));
  });
  root.append(svg("text", { x: left, y: high + top + 20, "font-size": 11 }, say`launches 1 to ${columns}, in their order`));
  return root;
}

function drawRoofline(launches, peak, bandwidth, onPick) {
  const shown = launches.filter((l) => l.bytes && l.flops && l.limit_us);
  if (!shown.length) return document.createTextNode("");
  const wide = 760, high = 330, left = 70, top = 16, base = 40;
  const time = (l) => l.measured_us ?? l.estimate_us ?? l.limit_us;
  const intensity = (l) => l.flops / l.bytes, rate = (l) => l.flops / time(l) / 1e6;
  const log = Math.log10, xs = shown.map(intensity), ys = shown.map(rate);
  const x0 = log(Math.min(...xs, peak / bandwidth * 1e3) / 2), x1 = log(Math.max(...xs, peak / bandwidth * 1e3) * 3), y1 = log(Math.max(peak, ...ys) * 2), y0 = Math.min(log(Math.max(1e-6, Math.min(...ys))), y1 - 3) - 0.2;
  const x = (v) => left + (log(v) - x0) / (x1 - x0) * (wide - left - 10), y = (v) => top + (y1 - log(Math.max(v, 1e-9))) / (y1 - y0) * (high - top - base);
  const root = svg("svg", { width: wide, height: high, role: "img", "aria-label": say`roofline` });
  for (let d = Math.ceil(x0); d <= x1; d++) root.append(svg("line", { x1: x(10 ** d), x2: x(10 ** d), y1: top, y2: high - base, stroke: "var(--line)" }), svg("text", { x: x(10 ** d), y: high - base + 15, "text-anchor": "middle", "font-size": 10.5 }, `${10 ** d}`));
  for (let d = Math.ceil(y0); d <= y1; d++) root.append(svg("line", { x1: left, x2: wide - 10, y1: y(10 ** d), y2: y(10 ** d), stroke: "var(--line)" }), svg("text", { x: left - 6, y: y(10 ** d) + 4, "text-anchor": "end", "font-size": 10.5 }, `${10 ** d}`));
  const roof = [];
  for (let n = 0; n <= 60; n++) {
    const at = 10 ** (x0 + (x1 - x0) * n / 60), limit = Math.min(peak, bandwidth * at / 1e3);
    roof.push(`${x(at)},${y(limit)}`);
  }
  root.append(svg("polyline", { points: roof.join(" "), fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
  for (const l of shown) {
    const dot = svg("circle", { cx: x(intensity(l)), cy: y(rate(l)), r: 5, fill: l.measured_us ? "var(--measured)" : `var(--${l.limited_by})`, "fill-opacity": .75, tabindex: 0 });
    dot.style.cursor = "pointer";
    dot.append(svg("title", {}, say`${l.name}: ${intensity(l).toFixed(1)} operations a byte, ${rate(l).toFixed(1)} TFLOP/s`));
    dot.addEventListener("click", () => onPick(l.name));
    root.append(dot);
  }
  root.append(svg("text", { x: wide / 2, y: high - 6, "text-anchor": "middle", "font-size": 11 }, say`operations a byte`),
    svg("text", { x: 14, y: high / 2, "text-anchor": "middle", "font-size": 11, transform: `rotate(-90 14 ${high / 2})` }, "TFLOP/s"));
  return root;
}
