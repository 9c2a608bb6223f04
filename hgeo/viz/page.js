"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("disk"), context = canvas.getContext("2d"), tip = document.getElementById("tip");
const count = data.x.length, byLabel = new Map(data.classes.map(c => [c.label, c]));
const hidden = new Set();
const px = new Float64Array(count), py = new Float64Array(count);
let showEdges = true, zoom = 1, radius = 1, centreX = 0, centreY = 0, queued = false;

// An orientation-preserving isometry of the disk is z -> (a z + b) / (conj(b) z + conj(a)), |a|² - |b|² = 1.
const identity = () => ({ ar: 1, ai: 0, br: 0, bi: 0 });
let motion = identity();

function apply(m, x, y) {
  const nr = m.ar * x - m.ai * y + m.br, ni = m.ar * y + m.ai * x + m.bi;
  const dr = m.br * x + m.bi * y + m.ar, di = m.br * y - m.bi * x - m.ai;
  const size = dr * dr + di * di;
  return [(nr * dr + ni * di) / size, (ni * dr - nr * di) / size];
}
function compose(m, n) {  // first n, then m
  const r = {
    ar: m.ar * n.ar - m.ai * n.ai + m.br * n.br + m.bi * n.bi,
    ai: m.ar * n.ai + m.ai * n.ar + m.bi * n.br - m.br * n.bi,
    br: m.ar * n.br - m.ai * n.bi + m.br * n.ar + m.bi * n.ai,
    bi: m.ar * n.bi + m.ai * n.br + m.bi * n.ar - m.br * n.ai,
  };
  const scale = 1 / Math.sqrt(r.ar * r.ar + r.ai * r.ai - r.br * r.br - r.bi * r.bi);  // rounding must not add up
  return { ar: r.ar * scale, ai: r.ai * scale, br: r.br * scale, bi: r.bi * scale };
}
function translation(x, y) {  // takes the centre to (x, y)
  const scale = 1 / Math.sqrt(1 - x * x - y * y);
  return { ar: scale, ai: 0, br: x * scale, bi: y * scale };
}
function carry(fx, fy, tx, ty) {  // takes one point to another along their geodesic
  const [x, y] = apply(translation(-fx, -fy), tx, ty);
  return compose(translation(fx, fy), compose(translation(x, y), translation(-fx, -fy)));
}
function place() {
  for (let i = 0; i < count; i++) { const p = apply(motion, data.x[i], data.y[i]); px[i] = p[0]; py[i] = p[1]; }
}
function toScreen(x, y) { return [centreX + radius * x, centreY - radius * y]; }
function toDisk(event) {
  const box = canvas.getBoundingClientRect();
  let x = (event.clientX - box.left - centreX) / radius, y = -(event.clientY - box.top - centreY) / radius;
  const size = Math.hypot(x, y), most = 0.98;
  if (size > most) { x *= most / size; y *= most / size; }
  return [x, y];
}
function geodesic(x1, y1, x2, y2) {
  // The circle through both points that meets the boundary at right angles has its centre where
  // 2⟨c, p⟩ = 1 + |p|² for both; without such a circle the geodesic is a diameter.
  const det = x1 * y2 - x2 * y1, [sx1, sy1] = toScreen(x1, y1), [sx2, sy2] = toScreen(x2, y2);
  context.moveTo(sx1, sy1);
  if (Math.abs(det) < 1e-6) { context.lineTo(sx2, sy2); return; }
  const f1 = (1 + x1 * x1 + y1 * y1) / 2, f2 = (1 + x2 * x2 + y2 * y2) / 2;
  const cx = (f1 * y2 - f2 * y1) / det, cy = (f2 * x1 - f1 * x2) / det, r = Math.sqrt(cx * cx + cy * cy - 1);
  if (!(r < 200)) { context.lineTo(sx2, sy2); return; }
  const [scx, scy] = toScreen(cx, cy);
  const a1 = Math.atan2(sy1 - scy, sx1 - scx), a2 = Math.atan2(sy2 - scy, sx2 - scx);
  let turn = a2 - a1; while (turn > Math.PI) turn -= 2 * Math.PI; while (turn < -Math.PI) turn += 2 * Math.PI;
  context.arc(scx, scy, r * radius, a1, a2, turn < 0);
}
const shapes = [
  (c, x, y, s) => c.arc(x, y, s, 0, 2 * Math.PI),
  (c, x, y, s) => { c.moveTo(x, y - s * 1.2); c.lineTo(x + s * 1.1, y + s * .8); c.lineTo(x - s * 1.1, y + s * .8); },
  (c, x, y, s) => c.rect(x - s * .9, y - s * .9, 1.8 * s, 1.8 * s),
  (c, x, y, s) => { c.moveTo(x, y - s * 1.25); c.lineTo(x + s * 1.25, y); c.lineTo(x, y + s * 1.25); c.lineTo(x - s * 1.25, y); },
  (c, x, y, s) => { c.moveTo(x, y + s * 1.2); c.lineTo(x + s * 1.1, y - s * .8); c.lineTo(x - s * 1.1, y - s * .8); },
  (c, x, y, s) => { const t = s * .45; c.rect(x - s * 1.2, y - t, 2.4 * s, 2 * t); c.rect(x - t, y - s * 1.2, 2 * t, 2.4 * s); },
  (c, x, y, s) => { c.moveTo(x - s, y - s); c.lineTo(x, y - s * .3); c.lineTo(x + s, y - s); c.lineTo(x + s * .3, y); c.lineTo(x + s, y + s);
    c.lineTo(x, y + s * .3); c.lineTo(x - s, y + s); c.lineTo(x - s * .3, y); },
  (c, x, y, s) => { for (let i = 0; i < 10; i++) { const q = i % 2 ? s * .55 : s * 1.35, w = Math.PI * (i / 5 - .5);
    c[i ? "lineTo" : "moveTo"](x + q * Math.cos(w), y + q * Math.sin(w)); } },
];
function outline(shape, x, y, s) { context.beginPath(); (shapes[shape] || shapes[0])(context, x, y, s); context.closePath(); }
function draw() {
  queued = false;
  const width = canvas.clientWidth, height = canvas.clientHeight, dots = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * dots)) canvas.width = Math.round(width * dots);
  if (canvas.height !== Math.round(height * dots)) canvas.height = Math.round(height * dots);
  context.setTransform(dots, 0, 0, dots, 0, 0);
  context.clearRect(0, 0, width, height);
  radius = zoom * (Math.min(width, height) / 2 - 12); centreX = width / 2; centreY = height / 2;
  context.beginPath(); context.arc(centreX, centreY, radius, 0, 2 * Math.PI);
  context.fillStyle = "#fff"; context.fill(); context.strokeStyle = "#222"; context.lineWidth = 1.2; context.stroke();
  if (showEdges) {
    context.beginPath();
    for (let e = 0; e < data.source.length; e++) {
      const i = data.source[e], j = data.target[e];
      if (!hidden.has(data.label[i]) && !hidden.has(data.label[j])) geodesic(px[i], py[i], px[j], py[j]);
    }
    context.strokeStyle = `rgba(110,118,130,${Math.max(.08, Math.min(.6, 10 / Math.sqrt(1 + data.source.length)))})`;
    context.lineWidth = .7; context.stroke();
  }
  const base = Math.max(2, Math.min(6, 160 / Math.sqrt(count)));
  for (let i = 0; i < count; i++) {
    if (hidden.has(data.label[i])) continue;
    const kind = byLabel.get(data.label[i]), [x, y] = toScreen(px[i], py[i]);
    // a node far from the centre looks small, as hyperbolic things do
    const near = .45 + .55 * (1 - px[i] * px[i] - py[i] * py[i]);
    outline(kind.shape, x, y, base * near);
    context.fillStyle = kind.color; context.globalAlpha = .9; context.fill(); context.globalAlpha = 1;
  }
}
function redraw() { if (!queued) { queued = true; requestAnimationFrame(draw); } }
function moveTo(next) { motion = next; place(); redraw(); }
function nearest(event) {
  const box = canvas.getBoundingClientRect(), mx = event.clientX - box.left, my = event.clientY - box.top;
  let found = -1, best = 144;
  for (let i = 0; i < count; i++) {
    if (hidden.has(data.label[i])) continue;
    const [x, y] = toScreen(px[i], py[i]), away = (x - mx) ** 2 + (y - my) ** 2;
    if (away < best) { best = away; found = i; }
  }
  return found;
}
let grabbed = null;
canvas.addEventListener("pointerdown", event => { grabbed = toDisk(event); canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener("pointerup", () => { grabbed = null; });
canvas.addEventListener("pointercancel", () => { grabbed = null; });
canvas.addEventListener("pointermove", event => {
  if (grabbed) {
    const now = toDisk(event);
    moveTo(compose(carry(grabbed[0], grabbed[1], now[0], now[1]), motion));
    grabbed = now; tip.style.display = "none"; return;
  }
  const node = nearest(event);
  if (node < 0) { tip.style.display = "none"; return; }
  const box = canvas.getBoundingClientRect(), r = Math.hypot(px[node], py[node]);
  tip.textContent = `node ${node} · ${byLabel.get(data.label[node]).name} · ${(2 * Math.atanh(Math.min(r, 1 - 1e-15))).toFixed(2)} from the centre`;
  tip.style.left = `${event.clientX - box.left + 12}px`; tip.style.top = `${event.clientY - box.top + 12}px`;
  tip.style.display = "block";
});
canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
function glide(x, y) {  // take (x, y) to the centre along the geodesic, in a third of a second
  const start = motion, length = Math.atanh(Math.min(Math.hypot(x, y), 1 - 1e-12)), size = Math.hypot(x, y), began = performance.now();
  if (size < 1e-9) return;
  const step = now => {
    const share = Math.min(1, (now - began) / 350), ease = share * share * (3 - 2 * share), reach = Math.tanh(length * ease) / size;
    moveTo(compose(translation(-x * reach, -y * reach), start));
    if (share < 1) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}
canvas.addEventListener("dblclick", event => {
  const node = nearest(event), [x, y] = node < 0 ? toDisk(event) : [px[node], py[node]];
  glide(x, y);
});
canvas.addEventListener("wheel", event => {
  event.preventDefault(); zoom = Math.max(.5, Math.min(20, zoom * Math.exp(-event.deltaY / 500))); redraw();
}, { passive: false });
canvas.addEventListener("keydown", event => {
  const step = { ArrowLeft: [.1, 0], ArrowRight: [-.1, 0], ArrowUp: [0, -.1], ArrowDown: [0, .1] }[event.key];
  if (step) { event.preventDefault(); moveTo(compose(translation(step[0], step[1]), motion)); }
});
document.getElementById("reset").onclick = () => { zoom = 1; moveTo(identity()); };
document.getElementById("edges").onclick = event => {
  showEdges = !showEdges; event.currentTarget.setAttribute("aria-pressed", showEdges); redraw();
};
for (const kind of data.classes) {
  const button = document.createElement("button"), swatch = document.createElement("canvas"), pen = swatch.getContext("2d");
  swatch.width = swatch.height = 16;
  pen.beginPath(); (shapes[kind.shape] || shapes[0])(pen, 8, 8, 5); pen.closePath(); pen.fillStyle = kind.color; pen.fill();
  button.append(swatch, kind.name); button.setAttribute("aria-pressed", "true");
  button.onclick = () => {
    if (hidden.has(kind.label)) hidden.delete(kind.label); else hidden.add(kind.label);
    button.setAttribute("aria-pressed", String(!hidden.has(kind.label))); redraw();
  };
  document.getElementById("legend").append(button);
}
new ResizeObserver(redraw).observe(document.getElementById("stage"));
place(); redraw();
