"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const get = id => document.getElementById(id);
const canvas = get("stage"), pen = canvas.getContext("2d"), tip = get("tip");
const count = data.label.length, kinds = new Map(data.classes.map(kind => [kind.label, kind]));
const px = new Float64Array(count), py = new Float64Array(count);  // where each node is in the picture
const shown = new Uint8Array(count).fill(1);
const state = { panel: 0, edges: count > 4000 ? "none" : "tree", mistakes: false, names: true, selected: -1, hovered: -1, zoom: 1, shiftX: 0, shiftY: 0 };
const hidden = new Set();
let motion, radius = 1, centreX = 0, centreY = 0, queued = false, settled = 0, colours = {};
const nameOf = i => data.names ? data.names[i] : `node ${i}`;

// ---- the isometries of each kind of panel: apply, compose (first n, then m), carry one place to another, walk part of the way ----

// of the disk: z -> (a z + b) / (conj(b) z + conj(a)), |a|² - |b|² = 1
const disk = {
  identity: () => ({ ar: 1, ai: 0, br: 0, bi: 0 }),
  apply(m, x, y) {
    const nr = m.ar * x - m.ai * y + m.br, ni = m.ar * y + m.ai * x + m.bi;
    const dr = m.br * x + m.bi * y + m.ar, di = m.br * y - m.bi * x - m.ai, size = dr * dr + di * di;
    return [(nr * dr + ni * di) / size, (ni * dr - nr * di) / size];
  },
  compose(m, n) {
    const r = {
      ar: m.ar * n.ar - m.ai * n.ai + m.br * n.br + m.bi * n.bi, ai: m.ar * n.ai + m.ai * n.ar + m.bi * n.br - m.br * n.bi,
      br: m.ar * n.br - m.ai * n.bi + m.br * n.ar + m.bi * n.ai, bi: m.ar * n.bi + m.ai * n.br + m.bi * n.ar - m.br * n.ai,
    };
    const scale = 1 / Math.sqrt(r.ar * r.ar + r.ai * r.ai - r.br * r.br - r.bi * r.bi);  // rounding must not add up
    return { ar: r.ar * scale, ai: r.ai * scale, br: r.br * scale, bi: r.bi * scale };
  },
  translation(x, y) {  // takes the centre to (x, y)
    const scale = 1 / Math.sqrt(1 - x * x - y * y);
    return { ar: scale, ai: 0, br: x * scale, bi: y * scale };
  },
  carry(fx, fy, tx, ty) {  // along their geodesic
    const [x, y] = disk.apply(disk.translation(-fx, -fy), tx, ty);
    return disk.compose(disk.translation(fx, fy), disk.compose(disk.translation(x, y), disk.translation(-fx, -fy)));
  },
  walk(x, y, share) {  // takes (x, y) so much of the way to the centre
    const size = Math.min(Math.hypot(x, y), 1 - 1e-15);
    if (size < 1e-9) return disk.identity();
    const reach = Math.tanh(Math.atanh(size) * share) / Math.hypot(x, y);
    return disk.translation(-x * reach, -y * reach);
  },
  away: (x, y) => 2 * Math.atanh(Math.min(Math.hypot(x, y), 1 - 1e-15)),
  at: distance => Math.tanh(distance / 2), steps: [1, 2, 3, 4, 6, 8], most: 0.98,
  line(x1, y1, x2, y2) {
    // The circle through both points that meets the boundary at right angles has its centre where
    // 2⟨c, p⟩ = 1 + |p|² for both; without such a circle the geodesic is a diameter.
    const det = x1 * y2 - x2 * y1, [sx1, sy1] = toScreen(x1, y1), [sx2, sy2] = toScreen(x2, y2);
    pen.moveTo(sx1, sy1);
    const f1 = (1 + x1 * x1 + y1 * y1) / 2, f2 = (1 + x2 * x2 + y2 * y2) / 2;
    const cx = (f1 * y2 - f2 * y1) / det, cy = (f2 * x1 - f1 * x2) / det, r = Math.sqrt(cx * cx + cy * cy - 1);
    if (Math.abs(det) < 1e-6 || !(r < 200) || Math.abs(sx1 - sx2) + Math.abs(sy1 - sy2) < 4) { pen.lineTo(sx2, sy2); return; }
    const [scx, scy] = toScreen(cx, cy), a1 = Math.atan2(sy1 - scy, sx1 - scx), a2 = Math.atan2(sy2 - scy, sx2 - scx);
    let turn = a2 - a1; while (turn > Math.PI) turn -= 2 * Math.PI; while (turn < -Math.PI) turn += 2 * Math.PI;
    pen.arc(scx, scy, r * radius, a1, a2, turn < 0);
  },
};

// of the sphere: rotations, 3 × 3 by rows; the picture is Lambert's equal-area map about (0, 0, 1)
const globe = {
  identity: () => [1, 0, 0, 0, 1, 0, 0, 0, 1],
  up(x, y) { const s = Math.min(1, x * x + y * y), w = 2 * Math.sqrt(1 - s); return [x * w, y * w, 1 - 2 * s]; },
  down(p) { const w = 1 / Math.max(Math.sqrt(2 * (1 + p[2])), 1e-9); return [p[0] * w, p[1] * w]; },
  turn: (m, p) => [0, 3, 6].map(row => m[row] * p[0] + m[row + 1] * p[1] + m[row + 2] * p[2]),
  apply: (m, x, y) => globe.down(globe.turn(m, globe.up(x, y))),
  compose: (m, n) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map(i => [0, 1, 2].reduce((sum, k) => sum + m[3 * Math.floor(i / 3) + k] * n[3 * k + i % 3], 0)),
  rotation(p, q) {  // the shortest that takes p to q
    const v = [p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]], c = p[0] * q[0] + p[1] * q[1] + p[2] * q[2];
    const w = 1 / Math.max(1 + c, 1e-9), [a, b, d] = v;
    return [1 - w * (b * b + d * d), w * a * b - d, w * a * d + b, w * a * b + d, 1 - w * (a * a + d * d), w * b * d - a,
      w * a * d - b, w * b * d + a, 1 - w * (a * a + b * b)];
  },
  carry: (fx, fy, tx, ty) => globe.rotation(globe.up(fx, fy), globe.up(tx, ty)),
  walk(x, y, share) {
    const size = Math.min(1, Math.hypot(x, y));
    if (size < 1e-9) return globe.identity();
    const back = Math.sin(Math.asin(size) * (1 - share)) / size;
    return globe.carry(x, y, x * back, y * back);
  },
  away: (x, y) => 2 * Math.asin(Math.min(1, Math.hypot(x, y))),
  at: distance => Math.sin(distance / 2), steps: [30, 60, 90, 120, 150].map(angle => angle * Math.PI / 180), most: 0.98,
  line(x1, y1, x2, y2) {
    const p = globe.up(x1, y1), q = globe.up(x2, y2), pieces = Math.hypot(x1 - x2, y1 - y2) < 0.1 ? 1 : 10;
    pen.moveTo(...toScreen(x1, y1));
    for (let step = 1; step <= pieces; step++) {
      const t = step / pieces, r = p.map((value, axis) => value * (1 - t) + q[axis] * t), size = Math.hypot(...r) || 1;
      pen.lineTo(...toScreen(...globe.down(r.map(value => value / size))));
    }
  },
};

// of the plane: translations
const plane = {
  identity: () => [0, 0],
  apply: (m, x, y) => [x + m[0], y + m[1]],
  compose: (m, n) => [m[0] + n[0], m[1] + n[1]],
  carry: (fx, fy, tx, ty) => [tx - fx, ty - fy],
  walk: (x, y, share) => [-x * share, -y * share],
  away: (x, y) => Math.hypot(x, y),
  at: distance => distance, steps: [0.25, 0.5, 0.75, 1], most: Infinity,
  line(x1, y1, x2, y2) { pen.moveTo(...toScreen(x1, y1)); pen.lineTo(...toScreen(x2, y2)); },
};
const models = { disk, map: globe, plane };
const panel = () => data.panels[state.panel];
const model = () => models[panel().kind];

function place() {
  const { x, y } = panel(), apply = model().apply;
  for (let i = 0; i < count; i++) { const p = apply(motion, x[i], y[i]); px[i] = p[0]; py[i] = p[1]; }
}
function toScreen(x, y) { return [centreX + radius * x, centreY - radius * y]; }
function toPicture(event) {
  let x = (event.clientX - centreX) / radius, y = (centreY - event.clientY) / radius;
  const size = Math.hypot(x, y), most = model().most;
  if (size > most) { x *= most / size; y *= most / size; }
  return [x, y];
}

// ---- drawing ----

const shapes = [
  (c, x, y, s) => { c.moveTo(x + s, y); c.arc(x, y, s, 0, 2 * Math.PI); },
  (c, x, y, s) => { c.moveTo(x, y - s * 1.2); c.lineTo(x + s * 1.1, y + s * .8); c.lineTo(x - s * 1.1, y + s * .8); c.closePath(); },
  (c, x, y, s) => c.rect(x - s * .9, y - s * .9, 1.8 * s, 1.8 * s),
  (c, x, y, s) => { c.moveTo(x, y - s * 1.25); c.lineTo(x + s * 1.25, y); c.lineTo(x, y + s * 1.25); c.lineTo(x - s * 1.25, y); c.closePath(); },
  (c, x, y, s) => { c.moveTo(x, y + s * 1.2); c.lineTo(x + s * 1.1, y - s * .8); c.lineTo(x - s * 1.1, y - s * .8); c.closePath(); },
  (c, x, y, s) => { const t = s * .45; c.rect(x - s * 1.2, y - t, 2.4 * s, 2 * t); c.rect(x - t, y - s * 1.2, 2 * t, 2.4 * s); },
  (c, x, y, s) => { c.moveTo(x - s, y - s); c.lineTo(x, y - s * .3); c.lineTo(x + s, y - s); c.lineTo(x + s * .3, y); c.lineTo(x + s, y + s);
    c.lineTo(x, y + s * .3); c.lineTo(x - s, y + s); c.lineTo(x - s * .3, y); c.closePath(); },
  (c, x, y, s) => { for (let i = 0; i < 10; i++) { const q = i % 2 ? s * .55 : s * 1.35, w = Math.PI * (i / 5 - .5);
    c[i ? "lineTo" : "moveTo"](x + q * Math.cos(w), y + q * Math.sin(w)); } c.closePath(); },
];
const shapeOf = kind => shapes[kind.shape] || shapes[0];
const colourOf = kind => kind.label < 0 ? colours.absent : kind.color === "#3B3B3B" ? colours.black : kind.color;

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "paper", "ink", "quiet", "ring", "edge", "absent", "black"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}
function fit() {
  const dots = window.devicePixelRatio || 1, width = window.innerWidth, height = window.innerHeight;
  if (canvas.width !== Math.round(width * dots)) canvas.width = Math.round(width * dots);
  if (canvas.height !== Math.round(height * dots)) canvas.height = Math.round(height * dots);
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  radius = state.zoom * (Math.min(width, height) / 2 - 14);
  centreX = width / 2 + state.shiftX; centreY = height / 2 + state.shiftY;
  return [width, height];
}
function drawFrame(width, height) {
  pen.clearRect(0, 0, width, height);
  if (panel().kind !== "plane") {
    pen.beginPath(); pen.arc(centreX, centreY, radius, 0, 2 * Math.PI); pen.fillStyle = colours.paper; pen.fill();
  } else { pen.fillStyle = colours.paper; pen.fillRect(0, 0, width, height); }
  pen.beginPath();
  for (const distance of model().steps) {  // circles about the mean, wherever it is now
    const r = model().at(distance);
    if (panel().kind === "disk") {  // an isometry makes circles of circles
      const [x, y] = disk.apply(motion, 0, 0), s = x * x + y * y, w = 1 - r * r * s, [cx, cy] = toScreen(x * (1 - r * r) / w, y * (1 - r * r) / w);
      const size = radius * r * (1 - s) / w;
      pen.moveTo(cx + size, cy); pen.arc(cx, cy, size, 0, 2 * Math.PI);
      continue;
    }
    let last = null;
    for (let step = 0; step <= 120; step++) {
      const w = step * Math.PI / 60, p = model().apply(motion, r * Math.cos(w), r * Math.sin(w));
      if (last && Math.hypot(p[0] - last[0], p[1] - last[1]) < 0.6) pen.lineTo(...toScreen(...p)); else pen.moveTo(...toScreen(...p));
      last = p;
    }
  }
  pen.strokeStyle = colours.ring; pen.lineWidth = 1; pen.stroke();
  if (panel().kind !== "plane") {
    pen.beginPath(); pen.arc(centreX, centreY, radius, 0, 2 * Math.PI); pen.strokeStyle = colours.ink; pen.lineWidth = 1.2; pen.stroke();
  }
}
function drawEdges(moving) {
  const last = state.edges === "none" ? 0 : state.edges === "tree" ? data.tree : data.source.length;
  if (!last || (moving && last > 3000)) return;
  const line = model().line;
  pen.beginPath();
  for (let e = 0; e < last; e++) {
    const i = data.source[e], j = data.target[e];
    if (shown[i] && shown[j]) line(px[i], py[i], px[j], py[j]);
  }
  pen.globalAlpha = Math.max(.08, Math.min(.55, 14 / Math.sqrt(1 + last)));
  pen.strokeStyle = colours.edge; pen.lineWidth = .8; pen.stroke(); pen.globalAlpha = 1;
}
// a node far from the centre of a disk looks small, as hyperbolic things do
const sizeOf = (i, base) => panel().kind === "disk" ? base * (.45 + .55 * (1 - px[i] * px[i] - py[i] * py[i])) : base;
const baseSize = () => Math.max(1.6, Math.min(6.5, 190 / Math.sqrt(count))) * Math.min(2.5, Math.sqrt(state.zoom));
function drawNodes(width, height) {
  const base = baseSize(), plain = base < 2.6;
  for (const kind of data.classes) {
    if (hidden.has(kind.label)) continue;
    const shape = plain ? shapes[0] : shapeOf(kind);
    pen.fillStyle = colourOf(kind); pen.globalAlpha = kind.label < 0 ? .6 : .85; pen.beginPath();
    for (const i of kind.members) {
      if (!shown[i]) continue;
      const x = centreX + radius * px[i], y = centreY - radius * py[i], s = sizeOf(i, base);
      if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
      if (s < 1.7) pen.fillRect(x - s, y - s, 2 * s, 2 * s); else shape(pen, x, y, s);  // a path of thousands is slow
    }
    pen.fill(); pen.globalAlpha = 1;
  }
}
function drawSelected() {
  const i = state.selected;
  if (i < 0) return;
  const line = model().line;
  for (const { node, weight } of neighbours(i)) {
    pen.beginPath(); line(px[i], py[i], px[node], py[node]);
    pen.lineWidth = weight === null ? 1.4 : 1 + 7 * weight; pen.strokeStyle = colours.ink; pen.globalAlpha = .5; pen.stroke(); pen.globalAlpha = 1;
  }
  const path = pathToRoot(i);
  pen.beginPath();
  for (let step = 0; step + 1 < path.length; step++) line(px[path[step]], py[path[step]], px[path[step + 1]], py[path[step + 1]]);
  pen.lineWidth = 3; pen.strokeStyle = "#D55E00"; pen.stroke();
  for (const node of [...path.slice(1), i]) {
    pen.beginPath(); shapes[0](pen, ...toScreen(px[node], py[node]), sizeOf(node, baseSize()) + (node === i ? 4 : 2));
    pen.lineWidth = 2; pen.strokeStyle = node === i ? colours.ink : "#D55E00"; pen.stroke();
  }
}
function drawNames(width, height, moving) {
  if (!state.names) return;
  const taken = [], most = moving ? 24 : 60, size = 11.5;
  pen.font = `600 ${size}px system-ui, sans-serif`; pen.textAlign = "center"; pen.textBaseline = "middle"; pen.lineJoin = "round";
  const put = (text, x, given, colour, tries = [0]) => {
    const half = pen.measureText(text).width / 2 + 3;
    const free = y => x > half && y > 8 && x < width - half && y < height - 8 &&
      !taken.some(([a, b, h]) => Math.abs(a - x) < h + half && Math.abs(b - y) < size + 3);
    const aside = tries.find(step => free(given + step)), y = given + aside;
    if (aside === undefined) return;
    taken.push([x, y, half]);
    pen.lineWidth = 3.5; pen.strokeStyle = colours.paper; pen.globalAlpha = .85; pen.strokeText(text, x, y); pen.globalAlpha = 1;
    pen.fillStyle = colour; pen.fillText(text, x, y);
  };
  const above = i => { const [x, y] = toScreen(px[i], py[i]); return [x, y - sizeOf(i, baseSize()) - 8]; };
  for (const i of pathToRoot(state.selected)) put(nameOf(i), ...above(i), colours.ink);
  if (!data.names) {
    for (const kind of data.classes) if (kind.label >= 0 && !hidden.has(kind.label) && kind.members.length) put(kind.name, ...middle(kind), colours.ink, [0, -15, 15, -30, 30]);
    return;
  }
  for (const i of data.prominent) {
    if (taken.length >= most) break;
    // where everything is crowded against the rim a name would say nothing
    if (shown[i] && (panel().kind !== "disk" || px[i] * px[i] + py[i] * py[i] < .97)) put(nameOf(i), ...above(i), colours.ink);
  }
}
function middle(kind) {  // the median of those of a class that are seen, or of some hundreds of them
  const step = 1 + Math.floor(kind.members.length / 400), inside = kind.members.filter((i, at) => shown[i] && at % step === 0), sorted = axis => inside.map(i => axis[i]).sort((a, b) => a - b);
  const x = sorted(px)[inside.length >> 1] || 0, y = sorted(py)[inside.length >> 1] || 0;
  return toScreen(x, y);
}
function draw() {
  queued = false;
  const moving = performance.now() - settled < 140, [width, height] = fit();
  drawFrame(width, height); drawEdges(moving); drawNodes(width, height); drawSelected(); drawNames(width, height, moving);
  if (moving) window.setTimeout(redraw, 160);
}
function redraw() { if (!queued) { queued = true; requestAnimationFrame(draw); } }
function moveTo(next) { motion = next; settled = performance.now(); place(); redraw(); }

// ---- who is joined to whom ----

const starts = new Uint32Array(count + 1), joined = new Uint32Array(2 * data.source.length);
for (let e = 0; e < data.source.length; e++) { starts[data.source[e] + 1]++; starts[data.target[e] + 1]++; }
for (let i = 0; i < count; i++) starts[i + 1] += starts[i];
{ const next = starts.slice();
  for (let e = 0; e < data.source.length; e++) { joined[next[data.source[e]]++] = e; joined[next[data.target[e]]++] = e; } }
function neighbours(i) {  // the one that is listened to most first
  const found = [];
  for (let at = starts[i]; at < starts[i + 1]; at++) {
    const e = joined[at], first = data.source[e] === i;
    found.push({ node: first ? data.target[e] : data.source[e], weight: data.attention ? data.attention[first ? 1 : 0][e] : null });
  }
  return found.sort((a, b) => (b.weight || 0) - (a.weight || 0) || a.node - b.node);
}
function pathToRoot(i) {
  const path = [];
  for (let node = i; node >= 0 && path.length <= count; node = data.parent ? data.parent[node] : -1) path.push(node);
  return path;
}

// ---- what is said about a node ----

const className = i => kinds.get(data.label[i]).name;
function facts(i) {
  const lines = [];
  if (data.classes.length > 1) lines.push(className(i));
  if (data.predicted) lines.push(data.predicted[i] === data.label[i] ? "predicted right" : `predicted: ${data.called[data.predicted[i]]}`);
  lines.push(`${starts[i + 1] - starts[i]} neighbours`);
  const { x, y } = panel(), away = model().away(x[i], y[i]) * (panel().kind === "plane" ? panel().half : 1);
  lines.push(`${away.toFixed(2)} from the mean`);
  return lines;
}
function element(tag, text, parent) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (parent) parent.append(made);
  return made;
}
function showCard() {
  const card = get("card"), i = state.selected;
  card.replaceChildren();
  card.style.display = i < 0 ? "none" : "block";
  if (i < 0) return;
  element("h2", nameOf(i), card);
  for (const line of facts(i)) element("p", line, card);
  const path = pathToRoot(i).slice(1);
  if (path.length) element("p", "up to the root:", card);
  for (const node of path) element("button", nameOf(node), card).onclick = () => visit(node);
  const around = neighbours(i);
  if (!data.parent && around.length) element("p", data.attention ? "listens to (attention):" : "neighbours:", card);
  for (const { node, weight } of data.parent ? [] : around.slice(0, 12)) {
    const button = element("button", `${nameOf(node)} · ${className(node)}`, card);
    if (weight !== null) element("small", weight.toFixed(3), button);
    button.onclick = () => visit(node);
  }
  if (!data.parent && around.length > 12) element("p", `and ${around.length - 12} more`, card);
}
function select(i) { state.selected = i; showCard(); redraw(); }
function visit(i) { select(i); glide(px[i], py[i]); }
function nearest(event) {
  const mx = (event.clientX - centreX) / radius, my = (centreY - event.clientY) / radius;
  let found = -1, best = (12 / radius) ** 2;
  for (let i = 0; i < count; i++) {
    if (!shown[i]) continue;
    const away = (px[i] - mx) ** 2 + (py[i] - my) ** 2;
    if (away < best) { best = away; found = i; }
  }
  return found;
}
function hover(event) {
  const node = state.hovered = nearest(event);
  if (node < 0) { tip.style.display = "none"; return; }
  const around = neighbours(node).slice(0, 3).map(({ node: other, weight }) => nameOf(other) + (weight === null ? "" : ` ${weight.toFixed(2)}`));
  const heard = around.length ? [`${data.attention ? "listens to" : "joined to"} ${around.join(", ")}${starts[node + 1] - starts[node] > 3 ? " …" : ""}`] : [];
  tip.textContent = [nameOf(node), ...facts(node), ...heard].join("\n");
  tip.style.display = "block";
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 6)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 6)}px`;
}

// ---- moving ----

let gliding = 0;
function glide(x, y) {  // take (x, y) to the centre along the geodesic, in a third of a second
  const start = motion, began = performance.now(), mine = ++gliding;
  state.shiftX = state.shiftY = 0;
  const step = now => {
    if (mine !== gliding) return;
    const share = Math.min(1, Math.max(0, now - began) / 350), ease = share * share * (3 - 2 * share);
    moveTo(model().compose(model().walk(x, y, ease), start));
    if (share < 1) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}
let grabbed = null, travelled = 0;
const fingers = new Map();
canvas.addEventListener("pointerdown", event => {
  fingers.set(event.pointerId, event); gliding++;
  grabbed = toPicture(event); travelled = 0; canvas.setPointerCapture(event.pointerId);
});
function release(event) {
  fingers.delete(event.pointerId);
  if (grabbed && travelled < 4 && event.type === "pointerup") select(nearest(event));
  grabbed = null;
}
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointermove", event => {
  if (!grabbed) { hover(event); return; }
  tip.style.display = "none";
  if (fingers.size === 2) {  // two fingers magnify
    const [a, b] = [...fingers.values()], before = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
    fingers.set(event.pointerId, event);
    const [c, d] = [...fingers.values()];
    magnify(Math.hypot(c.clientX - d.clientX, c.clientY - d.clientY) / Math.max(before, 1), (c.clientX + d.clientX) / 2, (c.clientY + d.clientY) / 2);
    return;
  }
  travelled += Math.abs(event.movementX) + Math.abs(event.movementY);
  const now = toPicture(event);
  moveTo(model().compose(model().carry(grabbed[0], grabbed[1], now[0], now[1]), motion));
  grabbed = now;
});
canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
canvas.addEventListener("dblclick", event => {
  const node = nearest(event);
  glide(...(node < 0 ? toPicture(event) : [px[node], py[node]]));
});
function magnify(factor, x, y) {  // about a place on the screen
  const next = Math.max(.5, Math.min(40, state.zoom * factor)), share = next / state.zoom;
  state.shiftX = (x - window.innerWidth / 2) * (1 - share) + state.shiftX * share;
  state.shiftY = (y - window.innerHeight / 2) * (1 - share) + state.shiftY * share;
  state.zoom = next; settled = performance.now(); redraw();
}
canvas.addEventListener("wheel", event => {
  event.preventDefault(); gliding++;
  if (event.ctrlKey || panel().kind !== "disk") { magnify(Math.exp(-event.deltaY / 400), event.clientX, event.clientY); return; }
  // in the disk one comes nearer to the boundary by walking there: two thirds of a unit for each notch
  const [x, y] = toPicture(event), away = disk.away(x, y), step = -event.deltaY / 150;
  if (away > 1e-6) moveTo(disk.compose(disk.walk(x, y, Math.max(-1, Math.min(1, step / away))), motion));
}, { passive: false });
const keys = {
  ArrowLeft: () => push(.12, 0), ArrowRight: () => push(-.12, 0), ArrowUp: () => push(0, -.12), ArrowDown: () => push(0, .12),
  "+": () => magnify(1.25, window.innerWidth / 2, window.innerHeight / 2), "=": () => keys["+"](),
  "-": () => magnify(.8, window.innerWidth / 2, window.innerHeight / 2),
  "0": () => reset(), "/": () => get("search").focus(), Escape: () => select(-1), e: () => tools.edges.click(), n: () => tools.names.click(),
  d: () => tools.dark.click(), c: () => state.selected >= 0 && visit(state.selected),
  "?": () => { get("hint").textContent = "arrows move · + − magnify · 0 back · / search · Tab next control · e edges · n names · d dark · c centre · Esc let go"; },
};
function push(x, y) { moveTo(model().compose(model().walk(-x, -y, 1), motion)); }
document.addEventListener("keydown", event => {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = keys[event.key];
  if (act) { event.preventDefault(); act(); }
});
function reset() { gliding++; Object.assign(state, { zoom: 1, shiftX: 0, shiftY: 0 }); moveTo(model().identity()); }

// ---- searching and filtering ----

const found = get("found"), search = get("search");
function matches(text) {
  const wanted = text.trim().toLowerCase(), first = [], later = [];
  if (!wanted) return [];
  for (let i = 0; i < count && first.length < 8; i++) {
    const name = nameOf(i).toLowerCase();
    if (name === wanted || String(i) === wanted) first.unshift(i);
    else if (name.startsWith(wanted)) first.push(i);
    else if (later.length < 8 && name.includes(wanted)) later.push(i);
  }
  return [...first, ...later].slice(0, 8);
}
search.addEventListener("input", () => {
  found.replaceChildren();
  for (const i of matches(search.value)) {
    const button = element("button", nameOf(i), element("li", "", found));
    button.onclick = () => { found.replaceChildren(); visit(i); canvas.focus(); };
  }
});
search.addEventListener("keydown", event => {
  if (event.key === "Enter") { const [first] = matches(search.value); if (first !== undefined) { found.replaceChildren(); visit(first); canvas.focus(); } }
  if (event.key === "ArrowDown" && found.firstChild) { event.preventDefault(); found.querySelector("button").focus(); }
  if (event.key === "Escape") { search.value = ""; found.replaceChildren(); canvas.focus(); }
});
function sift() {
  for (let i = 0; i < count; i++) {
    shown[i] = !hidden.has(data.label[i]) && !(state.mistakes && (data.label[i] < 0 || data.predicted[i] === data.label[i]));
  }
  redraw();
}
const tools = {};
function tool(name, text, pressed, act) {
  const button = tools[name] = element("button", text(), get("tools"));
  const tell = () => { button.textContent = text(); button.setAttribute("aria-pressed", String(pressed())); };
  button.onclick = () => { act(); tell(); redraw(); };
  tell();
}
const root = document.documentElement;
tool("edges", () => `edges: ${state.edges === "tree" ? "spanning forest" : state.edges}`, () => state.edges !== "none",
  () => { state.edges = { tree: "all", all: "none", none: "tree" }[state.edges]; });
tool("names", () => "names", () => state.names, () => { state.names = !state.names; });
if (data.predicted) tool("mistakes", () => "mistakes only", () => state.mistakes, () => { state.mistakes = !state.mistakes; sift(); });
tool("dark", () => root.classList.contains("dark") ? "light" : "dark", () => true, () => { root.classList.toggle("dark"); readColours(); paintLegend(); });
tool("reset", () => "back to the start", () => true, reset);
function paintLegend() {
  for (const kind of data.classes) {
    const brush = kind.swatch.getContext("2d");
    brush.clearRect(0, 0, 28, 28); brush.beginPath(); shapeOf(kind)(brush, 14, 14, 9); brush.fillStyle = colourOf(kind); brush.fill();
  }
}
for (const kind of data.classes) {
  kind.members = [];
  const button = document.createElement("button");
  kind.swatch = document.createElement("canvas"); kind.swatch.width = kind.swatch.height = 28;
  kind.amount = document.createElement("small");
  button.append(kind.swatch, kind.name, kind.amount); button.setAttribute("aria-pressed", "true");
  button.onclick = () => {
    if (hidden.has(kind.label)) hidden.delete(kind.label); else hidden.add(kind.label);
    button.setAttribute("aria-pressed", String(!hidden.has(kind.label))); sift();
  };
  if (data.classes.length > 1) get("legend").append(button);
}
for (let i = 0; i < count; i++) kinds.get(data.label[i]).members.push(i);
for (const kind of data.classes) kind.amount.textContent = kind.members.length;
function choose(number) {
  state.panel = number; motion = model().identity();
  get("about").textContent = [data.note, panel().space, panel().note].filter(Boolean).join(" · ");
  [...get("factors").children].forEach((button, at) => button.setAttribute("aria-pressed", String(at === number)));
  reset();
}
if (data.panels.length > 1) data.panels.forEach((one, number) => { element("button", one.space, get("factors")).onclick = () => choose(number); });
const prefers = window.matchMedia("(prefers-color-scheme: dark)");
root.classList.toggle("dark", prefers.matches);
prefers.addEventListener("change", () => { root.classList.toggle("dark", prefers.matches); readColours(); paintLegend(); redraw(); });
readColours(); paintLegend(); choose(0); draw();
window.addEventListener("resize", redraw);
