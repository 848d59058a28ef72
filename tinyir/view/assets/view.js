"use strict";
// The page: tabs, what is picked, and the panes.
const $ = (id) => document.getElementById(id);
const make = (tag, attrs = {}, ...inner) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attrs)) key === "class" ? (made.className = value) : key.startsWith("on") ? made.addEventListener(key.slice(2), value) : made.setAttribute(key, value);
  made.append(...inner);
  return made;
};
const LINE = 17;
// The words of the page in its language: say`of ${n} lines` looks for "of {0} lines", and is English where that has no translation.
let words = {};
const say = (parts, ...values) => {
  const english = parts.reduce((text, part, n) => `${text}{${n - 1}}${part}`);
  return (words[english] ?? english).replace(/\{(\d+)\}/g, (_, n) => values[n]);
};
const bound = (by) => ({memory: say`memory`, compute: say`compute`, latency: say`latency`})[by] ?? by;

async function unpacked() {
  const raw = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

class Page {
  constructor(data) {
    this.data = data;
    words = data.words;
    document.documentElement.lang = data.lang;
    for (const named of document.querySelectorAll("[data-say]")) this.name(named);
    this.names = new Names(data);
    this.picked = "";
    this.panes = {};
    const sizes = Object.entries(data.sizes).map(([k, v]) => `${k}=${v}`).join(" ");
    $("name").append(data.name, make("small", {}, `${data.card}${sizes ? `, ${sizes}` : ""}`));
    this.tabs = [["graph", say`Graph`, data.graph], ["regions", say`Regions`, data.regions.length], ["memory", say`Memory`, data.memory],
      ["plan", say`Plan`, data.launches.length], ["texts", say`Texts`, true], ["passes", say`Passes`, data.passes.length]].filter(([, , has]) => has);
    this.tabs.forEach(([id, title], n) => $("tabs").append(make("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-selected": "false", title: `${title} (${n + 1})`, onclick: () => this.open(id) }, title)));
    for (const name of [...this.names.known.values()].sort()) $("known").append(make("option", { value: name }));
    $("find").addEventListener("change", () => { if (this.names.known.has(keyOf($("find").value))) this.pick($("find").value); });
    $("theme").addEventListener("click", () => this.turn());
    $("keys").addEventListener("click", () => this.help());
    document.addEventListener("keydown", (e) => this.key(e));
    if (matchMedia("(prefers-color-scheme: dark)").matches) this.turn();
    this.open(this.tabs[0][0]);
  }

  // The labels of what the page has from the start.
  name(element) {
    const label = words[element.dataset.say] ?? element.dataset.say;
    for (const attribute of ["aria-label", "title", "placeholder"]) if (element.hasAttribute(attribute)) element.setAttribute(attribute, label + (element.dataset.key ? ` (${element.dataset.key})` : ""));
  }

  turn() { document.documentElement.classList.toggle("dark"); }

  help() {
    const keys = [["1 .. 6", say`the views`], ["/", say`find a name`], ["t", say`the picked name in the texts`], ["n, p", say`next and previous place in the texts`], ["d", say`light or dark`], ["Esc", say`pick nothing`], ["Tab, Enter", say`walk the graph, pick`]];
    $("help").replaceChildren(make("h2", {}, say`Keys`), ...keys.map(([k, what]) => make("p", {}, make("kbd", {}, k), ` ${what}`)), make("button", { type: "button", onclick: () => $("help").close() }, say`close`));
    $("help").showModal();
  }

  key(e) {
    if (e.target instanceof HTMLInputElement) { if (e.key === "Escape") e.target.blur(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const tab = this.tabs[Number(e.key) - 1];
    if (tab) this.open(tab[0]);
    else if (e.key === "/") { $("find").focus(); $("find").select(); e.preventDefault(); }
    else if (e.key === "d") this.turn();
    else if (e.key === "t" && this.picked) this.open("texts");
    else if (e.key === "n" || e.key === "p") this.step(e.key === "n" ? 1 : -1);
    else if (e.key === "Escape") this.pick("");
    else if (e.key === "?") this.help();
  }

  open(id) {
    this.tab = id;
    for (const [other] of this.tabs) $(`tab-${other}`).setAttribute("aria-selected", String(other === id));
    if (!this.panes[id]) { this.panes[id] = this[`pane_${id}`](); $("main").append(this.panes[id].element); this.panes[id].shown?.(); }
    for (const [other, pane] of Object.entries(this.panes)) pane.element.hidden = other !== id;
    this.show();
  }

  pick(name) {
    this.picked = name ? keyOf(name) : "";
    this.place = 0;
    this.show();
  }

  step(by) {
    this.place = (this.place || 0) + by;
    this.panes.texts?.picked?.();
  }

  show() {
    this.detail();
    this.panes[this.tab].picked?.();
  }

  link(name, text = name) { return make("button", { class: "name", type: "button", onclick: () => this.pick(name) }, text); }

  // What is known of the picked name, beside every view.
  detail() {
    const key = this.picked, box = $("detail");
    if (!key) { box.replaceChildren(); return; }
    const name = this.names.known.get(key) || key, found = [];
    const facts = (list) => make("dl", {}, ...list.filter(([, v]) => v !== "" && v !== undefined && v !== null).flatMap(([k, v]) => [make("dt", {}, k), make("dd", {}, ...[v].flat())]));
    const origin = this.names.origin.get(key) || key;
    const node = this.data.graph?.nodes.find((n) => keyOf(n.label) === origin && n.kind !== "output") || this.data.graph?.nodes.find((n) => keyOf(n.label) === key);
    if (node) found.push(facts([["op", node.op], [say`from`, node.line ? say`line ${node.line} of the model` : ""], [say`type`, node.types.join(", ")],
      [say`values`, (node.values || []).slice(0, 30).flatMap((v) => [this.link(v), " "])]]));
    const home = this.names.region.get(key) || this.names.region.get(origin);
    const region = this.data.regions.find((r) => keyOf(r.name) === (home || key));
    if (region) found.push(make("h2", {}, say`region`, " ", this.link(region.name)), facts([[say`ops`, region.ops.flatMap((o) => [this.link(o), " "])], [say`operations`, region.flops.toLocaleString()], [say`bytes`, bytes(region.bytes)]]));
    const launch = this.data.launches.find((l) => l.name === name || region && l.regions.includes(region.name));
    if (launch) found.push(make("h2", {}, say`launch`, " ", this.link(launch.name)), facts([[say`family`, launch.family], [say`grid`, launch.grid.join(" x ")], [say`block`, launch.block.join(" x ")],
      [say`limit`, `${us(launch.limit_us)} us, ${bound(launch.limited_by)}`], [say`estimate`, launch.estimate_us ? `${us(launch.estimate_us)} us, ${bound(launch.bound)}` : ""], [say`measured`, launch.measured_us ? `${us(launch.measured_us)} us` : ""]]));
    const buffer = this.data.memory?.buffers.find((b) => b.name === name);
    if (buffer) found.push(facts([[say`buffer`, buffer.type], [say`bytes`, bytes(buffer.bytes)], [say`lives`, say`${this.data.memory.launches[buffer.first]} to ${this.data.memory.launches[buffer.last]}`]]));
    const places = this.names.texts.map((text, n) => { const { lines, isOwn } = this.names.at(n, key); return lines.length ? [text.stage, isOwn ? lines.length === 1 ? say`1 line` : say`${lines.length} lines` : say`in ${lines.length} lines of what it is a part of`] : [text.stage, say`not there`]; });
    box.replaceChildren(make("h2", { class: "name" }, name), ...found, make("h2", {}, say`in the texts`), facts(places),
      make("button", { type: "button", id: "show-texts", onclick: () => this.open("texts") }, say`show in the texts (t)`));
  }

  pane_graph() {
    const nodes = this.data.graph.nodes.map((n) => ({ ...n, lines: n.kind === "op" ? [n.label, n.op, n.types.at(-1)] : [n.label, n.types.at(-1)] }));
    let withParams = false, drawn = null;
    const element = make("div", { class: "pane fill" });
    const draw = () => {
      const kept = nodes.filter((n) => withParams || n.kind !== "param" && n.kind !== "constant");
      drawn?.root.remove();
      drawn = drawGraph(kept, this.data.graph.edges, (n) => this.pick(n.label));
      element.prepend(drawn.root);
      drawn.fit();
      mark();
    };
    const mark = () => {
      const origin = this.names.origin.get(this.picked) || this.picked;
      const own = nodes.filter((n) => keyOf(n.label) === origin || keyOf(n.label) === this.picked).map((n) => n.id);
      const home = this.names.region.get(this.picked) || this.names.region.get(origin);
      const near = home ? nodes.filter((n) => n.kind === "op" && this.names.region.get(keyOf(n.label)) === home).map((n) => n.id) : [];
      drawn.mark(own, near);
    };
    element.append(make("div", { class: "tools" }, make("label", {}, make("input", { type: "checkbox", onchange: (e) => { withParams = e.target.checked; draw(); } }), " ", say`parameters and constants`),
      make("button", { type: "button", onclick: () => drawn.fit() }, say`fit`), make("span", { class: "dim" }, say`picked op blue, its region orange`)));
    return { element, shown: draw, picked: mark };
  }

  pane_regions() {
    const element = make("div", { class: "pane" }), cards = new Map();
    const reasons = (list, title) => list.length ? [make("details", {}, make("summary", {}, `${title}: ${list.length}`), make("ul", {}, ...list.map((v) => make("li", {}, this.link(v.source), " \u2192 ", this.link(v.reader), ` (${v.rule}) `, make("span", { class: "dim" }, v.why)))))] : [];
    for (const region of this.data.regions) {
      const apart = reasons(region.apart, say`not fused, and why`);
      apart.forEach((d) => { d.open = true; });
      const card = make("section", { class: "card" }, make("h2", {}, this.link(region.name), make("small", { class: "dim" }, "  ", say`${region.ops.length} ops, ${region.flops.toLocaleString()} operations, ${bytes(region.bytes)}`)),
        make("div", {}, say`ops`, ": ", ...region.ops.flatMap((o) => [this.link(o), " "])), make("div", { class: "dim" }, say`reads ${region.inputs.join(", ")}; writes ${region.outputs.join(", ")}`),
        ...reasons(region.fused, say`fused`), ...apart);
      cards.set(keyOf(region.name), card);
      element.append(card);
    }
    return { element, picked: () => {
      const home = this.names.region.get(this.picked) || this.names.region.get(this.names.origin.get(this.picked)) || this.picked;
      for (const [key, card] of cards) { card.classList.toggle("picked", key === home); if (key === home) card.scrollIntoView({ block: "nearest" }); }
    } };
  }

  pane_memory() {
    const m = this.data.memory;
    const shared = m.total ? say`; the arena holds them in ${bytes(m.total)}` : "";
    return { element: make("div", { class: "pane" }, make("p", {}, say`${m.buffers.length} buffers of ${bytes(m.sum)} between ${m.launches.length} launches${shared}. Weights: ${bytes(m.weights)}.`), drawMemory(m, (name) => this.pick(name))) };
  }

  pane_plan() {
    const rows = this.data.launches, head = [[say`launch`], [say`regions`], [say`family`], [say`operations`, 1], [say`bytes`, 1], [say`limit us`, 1], [say`by`], [say`estimate us`, 1], [say`bound`], [say`measured us`, 1], [say`of the limit`, 1]];
    const body = make("tbody"), time = (l) => l.measured_us ?? l.estimate_us;
    const cells = (l) => [l.name, l.regions.join(", "), l.family || (l.serves ? say`for ${l.serves}` : "") + (l.once ? say`, once` : ""), l.flops, l.bytes, l.limit_us, bound(l.limited_by), l.estimate_us, bound(l.bound), l.measured_us, time(l) ? l.limit_us / time(l) : null];
    let order = -1, isUp = true;
    const fill = () => {
      const sorted = order < 0 ? rows : [...rows].sort((a, b) => { const [x, y] = [cells(a)[order], cells(b)[order]]; return (x === null ? 1 : y === null ? -1 : x < y ? -1 : x > y ? 1 : 0) * (isUp ? 1 : -1); });
      body.replaceChildren(...sorted.map((l) => {
        const c = cells(l), row = make("tr", {}, make("td", {}, this.link(l.name)), make("td", {}, ...l.regions.flatMap((r) => [this.link(r), " "])), make("td", {}, c[2]),
          ...[c[3].toLocaleString(), bytes(c[4]), us(c[5])].map((t) => make("td", { class: "number" }, t)), make("td", {}, c[6]), make("td", { class: "number" }, us(c[7])), make("td", {}, c[8]),
          make("td", { class: "number" }, us(c[9])), make("td", { class: "number" }, c[10] === null ? "" : `${(c[10] * 100).toFixed(0)}%`));
        row.dataset.keys = [l.name, ...l.regions].map(keyOf).join(" ");
        return row;
      }));
      picked();
    };
    const picked = () => { const home = this.names.region.get(this.picked) || this.names.region.get(this.names.origin.get(this.picked)); for (const row of body.children) { const keys = row.dataset.keys.split(" "); row.classList.toggle("picked", keys.includes(this.picked) || keys.includes(home)); } };
    const total = (f) => rows.reduce((sum, l) => sum + (l.once ? 0 : f(l) || 0), 0);
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...head.map(([title, isNumber], n) => make("th", { class: isNumber ? "number" : "", onclick: () => { isUp = order === n ? !isUp : !isNumber; order = n; fill(); } }, title)))), body);
    const element = make("div", { class: "pane" }, make("p", {}, say`${rows.length} launches, of which ${rows.filter((l) => l.once).length} are made once; of the others: limit ${us(total((l) => l.limit_us))} us, estimate ${us(total((l) => l.estimate_us))} us${rows.some((l) => l.measured_us) ? say`, measured ${us(total((l) => l.measured_us))} us` : ""} on ${this.data.card}. The limit is the longer of the operations at the card's peak and the bytes at its bandwidth.`), drawRoofline(rows, this.data.peak_tflops, this.data.dram_gbs, (name) => this.pick(name)), table);
    fill();
    return { element, picked };
  }

  pane_texts() {
    const aside = this.names.texts.length > 5 ? ["index", "poly"] : [], element = make("div", { class: "pane fill" }), columns = make("div", { class: "columns" }), chips = make("div", { class: "tools" });
    const views = this.names.texts.map((text, n) => this.column(text, n));
    for (const [n, view] of views.entries()) {
      const stage = this.names.texts[n].stage;
      view.element.hidden = aside.includes(stage);
      columns.append(view.element);
      const turned = (e) => { view.element.hidden = !e.target.checked; view.picked(); };
      chips.append(make("label", {}, make("input", { type: "checkbox", onchange: turned, ...(view.element.hidden ? {} : { checked: "" }) }), ` ${stage}`));
    }
    element.append(columns, chips);
    chips.style.cssText = "background:var(--soft);padding:3px 8px;border:1px solid var(--line);border-radius:6px";
    return { element, shown: () => views.forEach((v) => v.draw()), picked: () => views.forEach((v) => v.picked()) };
  }

  // A text of which only the lines in view are in the document.
  column(text, number) {
    const room = make("div", { class: "room" }), box = make("div", { class: "lines", tabindex: 0 }, room), count = make("small"), element = make("section", { class: "column", "data-stage": text.stage }, make("h2", {}, text.stage, count), box);
    room.style.height = `${text.lines.length * LINE + 30}px`;
    let hits = { lines: [], isOwn: true }, marked = new Set();
    const draw = () => {
      const first = Math.max(0, Math.floor(box.scrollTop / LINE) - 20), last = Math.min(text.lines.length, first + Math.ceil((box.clientHeight || 800) / LINE) + 40);
      room.replaceChildren(...text.lines.slice(first, last).map((line, n) => this.line(line, first + n, marked.has(first + n) ? (hits.isOwn ? " hit" : " near") : "")));
    };
    box.addEventListener("scroll", () => requestAnimationFrame(draw));
    const picked = () => {
      hits = this.picked ? this.names.at(number, this.picked) : { lines: [], isOwn: true };
      marked = new Set(hits.lines);
      count.textContent = hits.lines.length ? say`${hits.lines.length} lines` : "";
      if (hits.lines.length) {
        const at = hits.lines[((this.place || 0) % hits.lines.length + hits.lines.length) % hits.lines.length];
        box.scrollTop = Math.max(0, at * LINE - box.clientHeight / 3);
      }
      draw();
    };
    return { element, draw, picked };
  }

  line(line, n, mark) {
    const made = make("div", { class: `line${mark}`, "data-n": n + 1 });
    made.style.top = `${n * LINE}px`;
    let end = 0;
    for (const found of line.matchAll(WORD)) {
      const key = keyOf(found[0]);
      if (!this.names.known.has(key)) continue;
      made.append(line.slice(end, found.index), make("span", { class: key === this.picked ? "hit" : "", onclick: () => this.pick(found[0]) }, found[0]));
      end = found.index + found[0].length;
    }
    made.append(line.slice(end));
    return made;
  }

  pane_passes() {
    const element = make("div", { class: "pane" });
    for (const one of this.data.passes) {
      const before = one.before.split("\n"), after = one.after.split("\n"), kept = new Set(after), had = new Set(before);
      const gone = before.filter((l) => !kept.has(l)), added = after.filter((l) => !had.has(l));
      element.append(make("details", { class: "card" }, make("summary", {}, make("b", {}, one.name), make("span", { class: "dim" }, gone.length + added.length ? `  ${say`${gone.length} lines gone, ${added.length} new`}` : `  ${say`nothing changed`}`)),
        make("div", { class: "diff" }, ...gone.map((l) => make("div", { class: "gone" }, `- ${l}`)), ...added.map((l) => make("div", { class: "new" }, `+ ${l}`)))));
    }
    return { element };
  }
}

unpacked().then((data) => { window.page = new Page(data); document.body.dataset.ready = "yes"; });
