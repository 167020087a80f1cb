"use strict";
// Points to pan, zoom and pick: WebGL, and a plain canvas where there is none.
// new PointMap(canvas, {x, y, size, group, onPick, onLasso}) with arrays of one number a point; points
// of a group have one of the colours --c0 ... --c9 of the style, of day or of night.
const N_COLORS = 10;

function shortened(text, most) { // never inside a character that is written with several
  if (text.length <= most) return text;
  let kept = "";
  for (const one of Intl.Segmenter ? new Intl.Segmenter().segment(text) : text) {
    const part = one.segment || one;
    if (kept.length + part.length >= most) break;
    kept += part;
  }
  return kept + "…";
}

class PointMap {
  constructor(canvas, options) {
    Object.assign(this, {size: null, group: null, onPick: () => {}}, options);
    this.canvas = canvas;
    const frame = document.createElement("div");
    frame.className = "map-frame"; canvas.replaceWith(frame);
    this.names = document.createElement("div"); this.names.className = "map-names";
    this.outline = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.outline.append(document.createElementNS("http://www.w3.org/2000/svg", "polygon"));
    frame.append(canvas, this.outline, this.names);
    this.lasso = null; // the corners of a selection that is being drawn, while `selecting`
    this.selecting = false;
    this.n = this.x.length;
    this.marked = new Set();
    this.hidden = new Set(); // groups that are switched off
    this.picked = -1;
    this.fitBounds();
    this.gl = canvas.getContext("webgl", {antialias: true, preserveDrawingBuffer: true});
    if (this.gl) this.prepare(); else this.plain = canvas.getContext("2d");
    this.listen();
    this.whole();
  }

  fitBounds() {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < this.n; i++) {
      x0 = Math.min(x0, this.x[i]); x1 = Math.max(x1, this.x[i]);
      y0 = Math.min(y0, this.y[i]); y1 = Math.max(y1, this.y[i]);
    }
    this.bounds = [(x0 + x1) / 2 || 0, (y0 + y1) / 2 || 0, Math.max(x1 - x0, 1e-9), Math.max(y1 - y0, 1e-9)];
  }

  prepare() {
    const gl = this.gl, program = gl.createProgram();
    const shader = (kind, text) => {
      const made = gl.createShader(kind);
      gl.shaderSource(made, text); gl.compileShader(made); gl.attachShader(program, made);
    };
    shader(gl.VERTEX_SHADER, `attribute vec2 at; attribute float size; attribute vec4 color;
      uniform vec2 centre, scale; uniform float grow; varying vec4 shown;
      void main() { gl_Position = vec4((at - centre) * scale, 0., 1.); gl_PointSize = size * grow; shown = color; }`);
    shader(gl.FRAGMENT_SHADER, `precision mediump float; varying vec4 shown;
      void main() { float d = length(gl_PointCoord - .5); if (d > .5 || shown.a == 0.) discard;
        float a = shown.a * smoothstep(.5, .4, d); gl_FragColor = vec4(shown.rgb * a, a); }`);
    gl.linkProgram(program); gl.useProgram(program);
    gl.enable(gl.BLEND); gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.uniform = name => gl.getUniformLocation(program, name);
    this.fill = (name, width, data) => {
      const place = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, this["b" + name] = this["b" + name] || gl.createBuffer());
      gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
      gl.enableVertexAttribArray(place); gl.vertexAttribPointer(place, width, gl.FLOAT, false, 0, 0);
    };
    this.fillPlaces();
    this.recolor();
  }

  fillPlaces() {
    const at = new Float32Array(2 * this.n);
    for (let i = 0; i < this.n; i++) { at[2 * i] = this.x[i]; at[2 * i + 1] = this.y[i]; }
    this.fill("at", 2, at);
  }

  label(named) { // [{name, rows}]: a name in the middle of its points
    this.named = named;
    const middle = values => values.sort((a, b) => a - b)[values.length >> 1];
    this.names.replaceChildren(...named.filter(one => one.rows.length).map(({name, rows}) => {
      const shown = document.createElement("span");
      shown.textContent = name;
      shown.dir = "auto";
      shown.wide = [...name].reduce((sum, one) => sum + (one > "\u2e7f" ? 6.8 : 3.4), 4); // half of it
      shown.at = [middle(rows.map(i => this.x[i])), middle(rows.map(i => this.y[i]))];
      return shown;
    }));
    this.draw();
  }

  placeNames() {
    const [s, w, h] = this.scales(), taken = [];
    for (const shown of this.names.children) {
      const x = w / 2 + (shown.at[0] - this.cx) * s, y = h / 2 - (shown.at[1] - this.cy) * s;
      shown.style.left = x + "px"; shown.style.top = y + "px";
      const wide = shown.wide;
      const hit = taken.some(([a, b, v]) => Math.abs(a - x) < v + wide && Math.abs(b - y) < 17);
      shown.hidden = hit || x < 0 || y < 0 || x > w || y > h; // the larger group keeps its name
      if (!shown.hidden) taken.push([x, y, wide]);
    }
  }

  inside(corners) { // the points inside a polygon on the screen
    const [s, w, h] = this.scales(), found = [];
    for (let i = 0; i < this.n; i++) {
      if (this.group && this.hidden.has(this.group[i])) continue;
      const px = w / 2 + (this.x[i] - this.cx) * s, py = h / 2 - (this.y[i] - this.cy) * s;
      let within = false;
      for (let a = 0, b = corners.length - 1; a < corners.length; b = a++) {
        const [ax, ay] = corners[a], [bx, by] = corners[b];
        if ((ay > py) !== (by > py) && px < (bx - ax) * (py - ay) / (by - ay) + ax) within = !within;
      }
      if (within) found.push(i);
    }
    return found;
  }

  color(i) {
    if (this.group && this.hidden.has(this.group[i])) return [0, 0, 0, 0];
    if (i === this.picked) return [...this.ink(), 1];
    if (this.marked.size && !this.marked.has(i)) return [.5, .5, .5, .34];
    const [r, g, b] = this.group ? this.palette()[this.group[i] % N_COLORS] : this.accent();
    return [r, g, b, this.marked.has(i) ? 1 : .7];
  }

  css(name) {
    const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#2a5db0";
    const full = hex.length === 4 ? hex.replace(/[0-9a-f]/gi, c => c + c) : hex;
    return [1, 3, 5].map(k => parseInt(full.slice(k, k + 2), 16) / 255);
  }
  accent() { return this._accent = this._accent || this.css("--accent"); }
  ink() { return this._ink = this._ink || this.css("--ink"); }
  palette() { return this._palette = this._palette || Array.from({length: N_COLORS}, (_, k) => this.css("--c" + k)); }

  legend(box, classes) { // a switch for every class, with its colour
    box.replaceChildren(...classes.map((name, number) => {
      const label = document.createElement("label"), check = document.createElement("input"), dot = document.createElement("i");
      check.type = "checkbox"; check.checked = true; dot.className = "c" + number % N_COLORS;
      check.addEventListener("change", () => { check.checked ? this.hidden.delete(number) : this.hidden.add(number); this.recolor(); });
      const named = document.createElement("bdi");
      named.textContent = name;
      label.append(check, " ", dot, named);
      return label;
    }));
  }

  recolor() {
    this._accent = this._ink = this._palette = null;
    if (!this.gl) return this.draw();
    const color = new Float32Array(4 * this.n), size = new Float32Array(this.n);
    for (let i = 0; i < this.n; i++) {
      color.set(this.color(i), 4 * i);
      size[i] = (this.size ? this.size[i] : 5) * (i === this.picked ? 2.4 : this.marked.has(i) ? 1.8 : 1);
    }
    this.fill("color", 4, color); this.fill("size", 1, size);
    this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.gl ? this.drawGL() : this.drawPlain(); this.placeNames(); });
  }

  resize() {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
    const [w, h] = [Math.max(1, Math.round(box.width * ratio)), Math.max(1, Math.round(box.height * ratio))];
    if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; }
    this.ratio = ratio;
  }

  scales() { // units of the screen a unit of the map, in CSS pixels
    const box = this.canvas.getBoundingClientRect();
    const fit = Math.min(box.width / this.bounds[2], box.height / this.bounds[3]) * .9;
    return [fit * this.zoom, box.width, box.height];
  }

  drawGL() {
    this.resize();
    const gl = this.gl, [s, w, h] = this.scales();
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.uniform("centre"), this.cx, this.cy);
    gl.uniform2f(this.uniform("scale"), 2 * s / w, 2 * s / h);
    gl.uniform1f(this.uniform("grow"), this.ratio * Math.min(3, Math.pow(this.zoom, .35)) * (this.n > 20000 ? .6 : 1) * Math.min(1, .4 + w / 1200));
    gl.drawArrays(gl.POINTS, 0, this.n);
  }

  drawPlain() {
    this.resize();
    const [s, w, h] = this.scales(), c = this.plain;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0); c.clearRect(0, 0, w, h);
    for (let i = 0; i < this.n; i++) {
      const x = w / 2 + (this.x[i] - this.cx) * s, y = h / 2 - (this.y[i] - this.cy) * s;
      if (x < -9 || y < -9 || x > w + 9 || y > h + 9) continue;
      const [r, g, b, a] = this.color(i), d = this.size ? this.size[i] : 4;
      c.fillStyle = `rgba(${255 * r},${255 * g},${255 * b},${a})`; c.fillRect(x - d / 2, y - d / 2, d, d);
    }
  }

  whole() { this.zoom = 1; this.cx = this.bounds[0]; this.cy = this.bounds[1]; this.draw(); }
  by(dx, dy) { const [s] = this.scales(); this.cx -= dx / s; this.cy += dy / s; this.draw(); }
  zoomAt(factor, px, py) {
    const [s, w, h] = this.scales(), k = Math.min(Math.max(this.zoom * factor, .5), 400) / this.zoom;
    const [mx, my] = [this.cx + (px - w / 2) / s, this.cy - (py - h / 2) / s];
    this.zoom *= k; this.cx = mx - (mx - this.cx) / k; this.cy = my - (my - this.cy) / k; this.draw();
  }
  goTo(i) { this.zoom = Math.max(this.zoom, 4); this.cx = this.x[i]; this.cy = this.y[i]; this.pick(i); }
  mark(list) { this.marked = new Set(list); this.recolor(); }
  pick(i) { this.picked = i; this.recolor(); this.onPick(i); }

  nearest(px, py, within = 14) {
    const [s, w, h] = this.scales();
    let [best, found] = [within * within, -1];
    for (let i = 0; i < this.n; i++) {
      const dx = w / 2 + (this.x[i] - this.cx) * s - px, dy = h / 2 - (this.y[i] - this.cy) * s - py;
      const d = dx * dx + dy * dy;
      if (d < best && !(this.group && this.hidden.has(this.group[i]))) { best = d; found = i; }
    }
    return found;
  }

  listen() {
    const c = this.canvas, down = new Map();
    const at = e => { const b = c.getBoundingClientRect(); return [e.clientX - b.left, e.clientY - b.top]; };
    let moved = 0;
    c.addEventListener("pointerdown", e => {
      c.setPointerCapture(e.pointerId); down.set(e.pointerId, at(e)); moved = 0;
      this.lasso = this.selecting || e.shiftKey ? [at(e)] : null;
    });
    c.addEventListener("pointermove", e => {
      const now = at(e);
      if (!down.has(e.pointerId)) { if (this.onHover) this.onHover(this.nearest(...now, 10), now); return; }
      if (this.lasso) {
        this.lasso.push(now);
        this.outline.firstChild.setAttribute("points", this.lasso.map(p => p.join(",")).join(" "));
        return;
      }
      const before = down.get(e.pointerId);
      down.set(e.pointerId, now);
      if (down.size === 2) {
        const other = [...down].find(([id]) => id !== e.pointerId)[1];
        const far = p => Math.hypot(p[0] - other[0], p[1] - other[1]);
        this.zoomAt(far(now) / Math.max(far(before), 1), ...other);
      } else this.by(now[0] - before[0], now[1] - before[1]);
      moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    });
    const up = e => {
      if (this.lasso && down.delete(e.pointerId)) {
        const corners = this.lasso;
        this.lasso = null; this.outline.firstChild.removeAttribute("points");
        if (corners.length > 2) { const rows = this.inside(corners); this.mark(rows); if (this.onLasso) this.onLasso(rows); }
        return;
      }
      if (down.delete(e.pointerId) && moved < 6 && e.type === "pointerup") {
        const i = this.nearest(...at(e));
        if (i >= 0) this.pick(i);
      }
    };
    for (const kind of ["pointerup", "pointercancel"]) c.addEventListener(kind, up);
    c.addEventListener("wheel", e => { e.preventDefault(); this.zoomAt(Math.exp(-e.deltaY / 400), ...at(e)); }, {passive: false});
    c.addEventListener("keydown", e => {
      const step = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[e.key];
      const [, w, h] = this.scales();
      if (step) this.by(...step);
      else if (e.key === "+" || e.key === "=") this.zoomAt(1.4, w / 2, h / 2);
      else if (e.key === "-") this.zoomAt(1 / 1.4, w / 2, h / 2);
      else if (e.key === "0") this.whole();
      else if (e.key === "Enter") { const i = this.nearest(w / 2, h / 2, 1e6); if (i >= 0) this.pick(i); }
      else return;
      e.preventDefault();
    });
    window.addEventListener("resize", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
  }
}

function saveRows(name, header, rows) { // a CSV file of what was selected
  const cell = value => /[",\n\r]/.test(value) ? '"' + value.replaceAll('"', '""') + '"' : value;
  const text = [header, ...rows].map(row => row.map(value => cell(String(value))).join(",")).join("\r\n") + "\r\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type: "text/csv"}));
  link.download = name; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
