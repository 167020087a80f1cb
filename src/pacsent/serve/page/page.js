"use strict";
const $ = id => document.getElementById(id);
let key = "", about = {}, map = null;

async function ask(path, body) {
  const headers = key ? {authorization: "Bearer " + key} : {};
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(path, {method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body)});
  if (answer.status === 401) { $("key-form").hidden = false; $("key").focus(); }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ? found.error.message : "The server answered " + answer.status + ".");
  return found;
}

function told(error) {
  $("problem").hidden = !error;
  $("problem").textContent = error ? error.message || "The server cannot be reached." : "";
}

function made(name, text, kind) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

const percent = value => (100 * value).toFixed(value > .995 && value < 1 ? 1 : 0) + " %";
const turns = {};
async function latest(name, work) { // an answer that was overtaken is dropped
  const mine = turns[name] = (turns[name] || 0) + 1;
  try { const found = await work(); if (turns[name] === mine) { told(null); return found; } }
  catch (error) { if (turns[name] === mine) told(error); }
  return null;
}

async function showWords(text) {
  const found = await latest("words", () => ask("/embed", {texts: text, words: true, mean: false}));
  if (!found) return;
  const {words, coverage, variance, tokens} = found.results[0];
  const heaviest = Math.max(1e-9, ...words.map(w => w.weight));
  $("words").replaceChildren(...words.flatMap(({word, known, weight}) => {
    const level = Math.min(5, Math.round(5 * Math.sqrt(weight / heaviest)));
    const shown = made("span", word, "word " + (known ? "known w" + level : "unknown"));
    shown.title = known ? `without it the vector turns by ${weight.toFixed(3)}` : "not in the vocabulary";
    const aloud = made("span", known ? "" : " (unknown)", "skip");
    return [shown, aloud, document.createTextNode(" ")];
  }));
  const spread = variance === null ? "There is no known word, so there is no vector."
    : variance === 0 ? "The posterior has no spread: this method takes the text at its word (λ = ∞)."
    : `The posterior spreads by ${Math.sqrt(variance).toPrecision(3)} (standard deviation) in each of ${about.dimensions} directions.`;
  $("spread").textContent = tokens ? `${percent(coverage)} of ${tokens} words are known. ${spread}` : spread;
}

async function showCompared(text, other) {
  if (!text.trim() || !other.trim()) { $("compared").textContent = "Two texts are needed."; return; }
  const found = await latest("compared", () => ask("/similarity", {a: text, b: other}));
  if (!found) return;
  const cosine = found.cosines[0];
  const said = cosine > .8 ? "say nearly the same" : cosine > .5 ? "are about like things" : cosine > .25 ? "have something in common" : "have little to do with each other";
  $("compared").textContent = `Cosine ${cosine.toFixed(3)}: they ${said}.`;
  $("needle").style.left = 50 + 50 * cosine + "%";
}

async function showClass(text) {
  const found = await latest("class", () => ask("/classify", {texts: text, explain: true}));
  if (!found) return;
  const {label, probability, set, abstained, explanation} = found.results[0];
  const promise = found.promise;
  $("label").textContent = abstained && promise.why_silent ? `It abstains: it would say ${label} (${percent(probability)}). ${promise.why_silent}`
    : abstained ? `It abstains: ${label} (${percent(probability)}) is not sure enough.` : `${label}, with probability ${percent(probability)}`;
  $("set").textContent = set === null ? promise.why_not || ""
    : (set.length ? `Cannot be ruled out: ${set.join(", ")}.` : "Every class can be ruled out: the text is unlike all of them.")
      + ` Such sets miss the right class for at most ${percent(promise.error)} of texts like those it was calibrated with (confidence ${percent(1 - promise.delta)}).`;
  const sums = new Map();
  for (const [word, value] of explanation.words) sums.set(word, (sums.get(word) || 0) + value);
  const top = [...sums].filter(([, v]) => v).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 8);
  const largest = Math.max(1e-9, ...top.map(([, v]) => Math.abs(v)));
  $("why").tBodies[0].replaceChildren(...top.map(([word, value]) => {
    const row = made("tr"), bar = made("td", undefined, "bar"), inside = made("div", undefined, value > 0 ? "for" : "against");
    inside.style.width = 100 * Math.abs(value) / largest + "%";
    bar.append(inside);
    row.append(made("td", word), bar, made("td", (value > 0 ? "+" : "−") + Math.abs(value).toFixed(3), "number"));
    return row;
  }));
}

function hitsInto(list, hits) {
  list.replaceChildren(...hits.map(hit => {
    const item = made("li"), most = innerWidth < 600 ? 140 : 300;
    const text = hit.text.length > most ? hit.text.slice(0, most) + "…" : hit.text;
    if (map && map.rows.has(hit.id)) {
      const button = made("button", text, "pick");
      button.type = "button"; button.title = "Show it on the map";
      button.addEventListener("click", () => { map.goTo(map.rows.get(hit.id)); $("map").focus(); });
      item.append(button);
    } else item.append(made("span", text));
    item.append(" ", made("span", hit.cosine.toFixed(3), "cosine"));
    return item;
  }));
  if (!hits.length) list.replaceChildren(made("li", "Nothing: no word of it is known."));
}

async function showNear(text) {
  const found = await latest("near", () => ask("/search", {query: text, k: 5}));
  if (found) hitsInto($("hits"), found.results[0]);
}

async function find() {
  const query = $("find").value;
  if (!query.trim()) { map.mark([]); $("found").replaceChildren(); return; }
  const found = await latest("find", () => ask("/search", {query, k: 20}));
  if (!found) return;
  hitsInto($("found"), found.results[0].slice(0, 8));
  map.mark(found.results[0].map(hit => map.rows.get(hit.id)).filter(row => row !== undefined));
}

async function showMap() {
  const found = await ask("/index/map");
  const classes = found.classes || [];
  map = new PointMap($("map"), {x: found.x, y: found.y, group: classes.length ? found.group : null, onPick: async row => {
    $("picked-class").textContent = classes.length ? "The classifier answers: " + classes[found.group[row]] : "";
    const text = await latest("picked", () => ask("/index/" + found.ids[row]));
    if (text) $("picked").textContent = text.text;
  }});
  $("map-classes").hidden = !classes.length;
  map.legend($("legend"), classes);
  map.rows = new Map(found.ids.map((id, row) => [id, row]));
  $("whole").addEventListener("click", () => { $("find").value = ""; map.mark([]); $("found").replaceChildren(); map.whole(); });
  $("find").addEventListener("input", later(find));
}

async function showPromises() {
  const {certificates} = await ask("/certificates");
  $("promises").replaceChildren(...certificates.map(({in_words, about}) => {
    const shown = made("div", undefined, "promise"), [first, ...rest] = in_words.split("\n");
    shown.append(made("p", first));
    const more = made("details");
    more.append(made("summary", about === "classifier" ? "How this is known about the classifier" : "How this is known"), ...rest.map(line => made("p", line, "quiet")));
    shown.append(more);
    return shown;
  }));
  if (!certificates.length) $("promises").replaceChildren(made("p", "Nothing: the server was started without certificates (--certificate FILE), and its classifier, if there is one, has none.", "quiet"));
}

function later(work) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(work, 200); };
}

function showText() {
  const text = $("text").value;
  showWords(text);
  showCompared(text, $("other").value);
  if (about.classes) showClass(text);
  if (about.texts !== undefined) showNear(text);
}

async function start() {
  try {
    const {data: [model]} = await ask("/v1/models");
    about = model.pacsent;
    const parts = [`model ${model.id}`, about.method && `method ${about.method}`, about.dimensions && `${about.dimensions} dimensions`, about.words && `${about.words.toLocaleString("en")} words`, about.classes && `${about.classes.length} classes`, about.texts !== undefined && `${about.texts.toLocaleString("en")} texts`];
    $("about").textContent = parts.filter(Boolean).join(" · ");
    $("key-form").hidden = true;
    $("classes").hidden = !about.classes;
    $("near").hidden = $("map-section").hidden = about.texts === undefined;
    if (about.texts !== undefined && !map) await showMap();
    await showPromises();
    showText();
    document.body.dataset.ready = "yes";
  } catch (error) { told(error); }
}

$("key-form").addEventListener("submit", event => { event.preventDefault(); key = $("key").value; $("key").value = ""; start(); });
$("text").addEventListener("input", later(showText));
$("other").addEventListener("input", later(() => showCompared($("text").value, $("other").value)));
start();
