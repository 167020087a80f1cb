"use strict";
const $ = id => document.getElementById(id);
let about = {};

function report(error) {
  $("problem").hidden = !error;
  $("problem").textContent = error ? error.message || "The server cannot be reached." : "";
}

const percent = value => (100 * value).toFixed(value > .995 && value < 1 ? 1 : 0) + "%";
const turns = {};
async function latest(name, work) { // an answer that was overtaken is dropped
  const mine = turns[name] = (turns[name] || 0) + 1;
  try { const found = await work(); if (turns[name] === mine) { report(null); return found; } }
  catch (error) { if (turns[name] === mine) report(error); }
  return null;
}

async function showWords(text) {
  const found = await latest("words", () => ask("/embed", {texts: text, words: true, mean: false}));
  if (!found) return;
  const {words, variance} = found.results[0];
  if (!words) { $("words").replaceChildren(); $("spread").textContent = "The text is too long to show the weight of each word."; return; }
  const heaviest = Math.max(1e-9, ...words.map(w => w.weight));
  $("words").replaceChildren(...words.flatMap(({word, known, weight}) => {
    const level = Math.min(5, Math.round(5 * Math.sqrt(weight / heaviest)));
    const shown = made("span", word, "word " + (known ? "known w" + level : "unknown"));
    shown.title = known ? `Without this word the vector turns by ${weight.toFixed(3)} (1 − cosine).` : "This word is not in the vocabulary.";
    return [shown, made("span", known ? "" : " (unknown)", "skip"), document.createTextNode(" ")];
  }));
  const known = words.filter(word => word.known).length;
  const spread = variance === null && !known ? "The text has no vector, because no word is in the vocabulary."
    : !variance ? "This method gives a vector without a variance."
    : `The posterior has the standard deviation ${Math.sqrt(variance).toPrecision(3)} in each of ${about.dimensions} dimensions.`;
  $("spread").textContent = words.length ? `${known} of ${words.length} words are in the vocabulary. ${spread}` : "The text is empty.";
}

async function showCompared(text, other) {
  if (!text.trim() || !other.trim()) { $("compared").textContent = "Two texts are needed."; return; }
  const found = await latest("compared", () => ask("/similarity", {a: text, b: other}));
  if (!found) return;
  const cosine = found.cosines[0];
  $("compared").textContent = `Cosine ${cosine.toFixed(3)}.`;
  $("needle").style.left = 50 + 50 * cosine + "%";
}

// Long names of classes may go on in the next line after an underscore.
const breakable = text => text.split(/(?<=_)/).flatMap(part => [part, made("wbr")]);

async function showClass(text) {
  const found = await latest("class", () => ask("/classify", {texts: text, explain: true}));
  if (!found) return;
  const {label, probability, set, abstained, explanation, note} = found.results[0];
  const {no_answers, no_sets, statement, comparison} = found.guarantee;
  const answer = label === null ? "No class" : `${label}, with probability ${percent(probability)}`;
  $("label").replaceChildren(...breakable(answer));
  $("abstained").textContent = label === null ? note
    : !abstained ? "" : "The classifier abstains. " + (no_answers || note || "This probability is too small for its guarantee.");
  // The statement is null where guarantees are withdrawn: the texts of this client differ.
  const {differs, holds_only_if, message} = comparison;
  $("drift").hidden = !(differs || holds_only_if);
  $("drift-title").textContent = differs ? "No guarantee: the texts differ" : `Guarantees hold only if repeats are ${holds_only_if}`;
  $("drift-message").textContent = message || "";
  $("statement").textContent = label === null ? ""
    : [statement, differs || holds_only_if ? "" : message].filter(Boolean).join(" ");
  $("set").textContent = label === null ? "" : set === null ? no_sets || ""
    : set.length ? `Prediction set: ${set.join(", ")}.` : "The prediction set is empty: the text differs from all classes.";
  const rows = explanation ? explanation.words.filter(([, v]) => Math.abs(v) >= 5e-4) : [];
  const shown = rows.slice(0, 8), rest = rows.slice(8).reduce((sum, [, v]) => sum + v, 0);
  if (rest) shown.push([rows.length === 9 ? "1 other word" : `${rows.length - 8} other words`, rest]);
  if (explanation && Math.abs(explanation.vector_remainder) >= 5e-4) shown.push(["the sentence vector as a whole", explanation.vector_remainder]);
  const largest = Math.max(1e-9, ...shown.map(([, v]) => Math.abs(v)));
  $("reasons").hidden = !shown.length;
  $("why").tBodies[0].replaceChildren(...shown.map(([word, value]) => {
    const row = made("tr"), bar = made("td", undefined, "bar"), inside = made("div", undefined, value > 0 ? "for" : "against");
    inside.style.width = 100 * Math.abs(value) / largest + "%";
    bar.append(inside);
    const named = made("td");
    named.append(made("bdi", word));
    row.append(named, bar, made("td", (value > 0 ? "+" : "−") + Math.abs(value).toFixed(3), "number"));
    return row;
  }));
}

function hitsInto(list, hits) {
  list.replaceChildren(...hits.map(hit => {
    const item = made("li");
    item.dir = "auto";
    item.append(made("span", hit.text, "hit"));
    const about = Object.entries(hit.metadata || {}).map(([name, value]) => `${name}: ${value}`);
    item.append(" ", made("bdi", [hit.score.toFixed(3), ...about].join(" · "), "cosine"));
    return item;
  }));
  if (!hits.length) list.replaceChildren(made("li", "No text was found: no word of the query is in the vocabulary."));
}

async function showNear(text) {
  const found = await latest("near", () => ask("/search", {query: text, k: 5}));
  if (found) hitsInto($("hits"), found.results[0]);
}

async function showCertificates() {
  const {certificates} = await ask("/certificates");
  $("certificates").replaceChildren(...certificates.map(({in_words, subject}) => {
    const shown = made("div", undefined, "certificate"), [first, ...rest] = in_words.split("\n");
    const more = made("details");
    more.append(made("summary", "Assumptions and details"), ...rest.map(line => made("p", line, /\S {2,}\S/.test(line) ? "quiet aligned" : "quiet")));
    const heading = made("h3");
    heading.append(...breakable(subject));
    shown.append(heading, made("p", first), more);
    return shown;
  }));
  if (!certificates.length) $("certificates").replaceChildren(made("p", "No certificate is served. Serve a classifier that was trained with a calibration set.", "quiet"));
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
    const {data} = await ask("/v1/models");
    about = Object.assign({}, ...data.map(model => model.pacsent).reverse()); // the first that has a part answers
    const names = data.map(model => model.id).join(", ");
    document.title = `${names} – pacsent`;
    const parts = [`${data.length === 1 ? "Model" : "Models"}: ${names}`, about.method && `method ${about.method}`, about.dimensions && `${about.dimensions} dimensions`, about.words && `${about.words.toLocaleString("en")} words`, about.classes && `${about.classes.length} classes`, about.texts !== undefined && `${about.texts.toLocaleString("en")} texts`];
    $("about").textContent = parts.filter(Boolean).join(" · ");
    $("key-form").hidden = true;
    $("classes").hidden = !about.classes;
    $("near").hidden = about.texts === undefined;
    await showCertificates();
    showText();
    document.body.dataset.ready = "yes";
  } catch (error) { report(error); }
}

onKey(start);
$("reset").addEventListener("click", async () => {
  if (await latest("reset", () => ask("/drift/reset", {}))) showClass($("text").value);
});
$("text").addEventListener("input", later(showText));
$("other").addEventListener("input", later(() => showCompared($("text").value, $("other").value)));
start();
