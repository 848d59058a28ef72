"use strict";
// Names: where each is in each text. A value keeps its name from the model to CUDA, where dots become underscores.
// A name with other characters is quoted; in JSON every name is.
const WORD = /%?"(?:[^"\\\n]|\\.)*"|[%A-Za-z_][\w.]*/g;
const keyOf = (word) => word.replace(/^%?"?/, "").replace(/"$/, "").replace(/[^\w]/g, "_");

class Names {
  constructor(data) {
    this.texts = [];
    if (data.source) this.texts.push({ stage: "model", lines: data.source.split("\n") });
    for (const one of data.stages) this.texts.push({ stage: one.stage, lines: one.text.split("\n") });
    this.known = new Map(); // key -> its spelling
    const note = (name) => { if (name) this.known.set(keyOf(name), name); };
    this.origin = new Map(); // key of a value -> the key of the op that it came from
    this.region = new Map(); // key of a value, an op or a tensor -> the key of its region
    for (const node of data.graph ? data.graph.nodes : []) {
      note(node.label);
      for (const value of node.values || []) { note(value); this.origin.set(keyOf(value), keyOf(node.label)); }
    }
    for (const region of data.regions) {
      note(region.name);
      for (const name of [...region.values, ...region.ops, ...region.outputs.map((o) => o.split(":")[0])]) {
        note(name);
        if (!this.region.has(keyOf(name))) this.region.set(keyOf(name), keyOf(region.name));
      }
    }
    for (const launch of data.launches) note(launch.name);
    for (const buffer of data.memory ? data.memory.buffers : []) note(buffer.name);
    this.lines = this.texts.map((text) => this.index(text.lines));
    this.modelLine = new Map();
    for (const node of data.graph ? data.graph.nodes : []) if (node.line) this.modelLine.set(keyOf(node.label), node.line - 1);
  }

  index(lines) {
    const found = new Map();
    lines.forEach((line, n) => {
      for (const word of line.match(WORD) || []) {
        const key = keyOf(word);
        if (!this.known.has(key)) continue;
        const at = found.get(key);
        if (!at) found.set(key, [n]);
        else if (at[at.length - 1] !== n) at.push(n);
      }
    });
    return found;
  }

  // The lines of a text that a name is in: its own, or else those of what it became a part of, which are `near`.
  at(number, key) {
    const own = this.lines[number].get(key);
    if (own) return { lines: own, isOwn: true };
    if (this.texts[number].stage === "model") {
      const line = this.modelLine.get(key) ?? this.modelLine.get(this.origin.get(key));
      if (line !== undefined) return { lines: [line], isOwn: true };
    }
    for (const other of [this.origin.get(key), this.region.get(key), this.region.get(this.origin.get(key))]) {
      const lines = other && this.lines[number].get(other);
      if (lines) return { lines, isOwn: false };
    }
    return { lines: [], isOwn: false };
  }
}
