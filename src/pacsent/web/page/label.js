"use strict";
const $ = id => document.getElementById(id);
const key = new URLSearchParams(location.search).get("key") || "";
// a reload shows the same text again; a second tab gets another one
let tab = sessionStorage.getItem("tab");
if (!tab) { tab = [...crypto.getRandomValues(new Uint8Array(8))].map(b => b.toString(16)).join(""); sessionStorage.setItem("tab", tab); }
let task = null, who = "", busy = false, rung = false, checking = false, classes = [], shown = 0;
const MANY = 12;  // classes, beyond which a box finds them by name and the text stays in view above them
const percent = x => (Math.ceil(x * 1000 - 1e-9) / 10).toFixed(1) + "%";

function made(name, text, kind) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

// The name of a class, which may break after "_".
function named(label, tag = "bdi") {
  const element = made(tag);
  label.split(/(?<=_)/).forEach((part, at) => element.append(...(at ? [made("wbr")] : []), part));
  return element;
}

async function ask(path, more) {
  if (busy) return;
  busy = true;
  document.querySelectorAll("button").forEach(b => b.disabled = true);
  try {
    const answer = await fetch(path, {method: "POST", headers: {"content-type": "application/json", authorization: "Bearer " + key}, body: JSON.stringify({tab, ...more})});
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error ? found.error.message : "The server answered " + answer.status + ".");
    $("problem").hidden = true;
    return found;
  } catch (error) {
    $("problem").textContent = error instanceof TypeError ? "Connection lost. Saved labels are safe. Restart the server, then answer this text again." : error.message;
    $("problem").hidden = false;
  } finally {
    busy = false;
    document.querySelectorAll("button").forEach(b => b.disabled = false);
  }
}

async function go(path, more) {
  const found = await ask(path, more);
  if (found) { who = found.who; setMode("n_unread" in found.status); show(found.task); stand(found.status); document.body.dataset.ready = "yes"; document.body.dataset.n = found.status.n_labels; document.body.dataset.shown = ++shown; }
}

function setMode(isCheck) {
  if (isCheck === checking) return;
  checking = isCheck;
  document.title = document.querySelector("h1").textContent = "Checking a machine's labels";
  document.querySelector("summary").textContent = "Which rows are read";
  document.querySelector("details p").textContent = "Rows drawn at random come first: they tell how many labels are wrong along the order of trust. Then come the labels that are trusted least. All other labels are accepted unread.";
}

function show(next) {
  task = next;
  $("answers").hidden = !task;
  $("find").hidden = !task || classes.length <= MANY;
  find("");
  $("skip").hidden = !task;
  if (!task) { $("stream").textContent = ""; $("guess").textContent = ""; $("text").textContent = "There are no more texts."; return; }
  $("stream").textContent = {evaluate: "Evaluation text, drawn at random.", train: "Training text, on which the classifier is least sure.", read: "One of the labels that are trusted least.", agreement: "Also labelled by another person, to measure agreement."}[task.stream];
  if (checking && task.stream === "evaluate") $("stream").textContent = "Drawn at random; the machine's label is hidden, so that it does not influence you.";
  const pieces = task.pieces.length ? task.pieces : [[task.text, 0]];
  $("text").replaceChildren(...pieces.map(([piece, share]) => share > .15 ? made("mark", piece, "m" + Math.ceil(share * 3)) : document.createTextNode(piece)));
  $("text").scrollTop = 0;
  $("guess").textContent = task.guess === null ? "" : checking ? `The machine's label: ${task.guess}. Enter or its button accepts it; another button corrects it.` : `Predicted: ${task.guess} (probability ${task.probability.toFixed(2)}). Words that support this label are highlighted.`;
  [...$("answers").children].forEach((button, at) => button.classList.toggle("guessed", classes[at] === task.guess));
  const guessed = $("answers").querySelector(".guessed");
  $("answers").scrollTop = guessed ? guessed.offsetTop - $("answers").offsetTop - 8 : 0;
}

// Checking the labels of a machine: progress and the bound so far.
function standOfCheck(status, sure) {
  const count = n => n.toLocaleString("en");
  $("about").textContent = `${count(status.n_read)} of ${count(status.n_texts)} rows read` + (who ? ` · ${who}` : "") + (status.n_skipped ? ` · ${count(status.n_skipped)} skipped` : "") + (status.n_omitted ? ` · ${count(status.n_omitted)} empty` : "");
  const bound = status.error_upper === null ? "" : `at most ${percent(status.error_upper)} of the labels are wrong, with ${sure}% confidence.`;
  $("goal").textContent = status.reached ? `Done: ${bound}` : status.ended ? `The goal of ${percent(status.goal)} cannot be reached: ${count(status.n_skipped)} rows were skipped, and count as wrong.` : `Goal: at most ${percent(status.goal)} wrong labels.`;
  const least = status.n_sample_least, most = status.n_sample_most;
  $("certified").textContent = status.error_upper === null ? `${least === most ? count(least) : `${count(least)} to ${count(most)}`} more rows of the random sample. How many others must be read is known after it.` : status.ended ? (status.reached ? "" : `In the end ${bound}`) : `So far: ${bound}`;
  $("accuracy").textContent = status.ended || status.error_upper === null ? "" : `${count(status.n_unread)} more rows to read${status.n_skipped ? ", or more where rows are skipped" : ""}. All others are accepted as they are.`;
  if (!task) $("text").textContent = status.ended ? "No more rows need to be read." : "Other tabs show the last rows.";
  $("undo").hidden = status.ended;  // the command ends
  if (status.ended && !rung) $("results").click();
}

// Show the buttons of the classes whose names contain a text, _ as a space; return the only one, or the one of this name.
function find(text) {
  const plain = name => name.toLowerCase().replace(/[_\s]+/g, " ").trim();
  const buttons = [...$("answers").children];
  if (!text) $("find").value = "";
  buttons.forEach((button, at) => { button.hidden = !plain(classes[at]).includes(plain(text)); });
  const matches = buttons.filter(button => !button.hidden);
  return matches.length === 1 ? matches[0] : buttons.find((button, at) => plain(classes[at]) === plain(text));
}

function stand(status) {
  if (status.classes.join("\0") !== classes.join("\0")) {
    classes = status.classes;
    $("answers").replaceChildren(...classes.map((label, at) => {
      const button = made("button");
      button.type = "button";
      if (at < 9) button.append(made("kbd", String(at + 1)));
      button.append(named(label));
      button.addEventListener("click", () => answer(label));
      return button;
    }));
    document.body.classList.toggle("many", classes.length > MANY);
    show(task);
  }
  const bound = status.error_upper, sure = Math.round(100 * (1 - status.delta));
  document.body.classList.toggle("reached", status.reached);
  $("bar").style.width = 100 * status.progress + "%";
  if (checking) standOfCheck(status, sure);
  else standOfLabelling(status, bound, sure);
  let counts = classes.map((label, at) => [label, status.counts[at]]);
  if (classes.length > MANY) counts = counts.filter(([, n]) => n).sort((a, b) => b[1] - a[1]).slice(0, MANY);
  $("counts").replaceChildren(...counts.map(([label, n]) => {
    const row = made("tr");
    const head = made("th");
    head.append(named(label));
    row.append(head, made("td", n.toLocaleString("en"), "number"));
    return row;
  }));
  const found = status.agreement, apart = Object.keys(status.disagreements || {}).map(row => Number(row) + 1);
  $("agreement").textContent = (found ? `Agreement on ${found.texts} text${found.texts === 1 ? "" : "s"}: ${found.measure} ${found.value === null ? "not defined" : found.value.toFixed(2)} (${found.same} the same).` : "") + (apart.length ? ` Annotators disagree on row${apart.length === 1 ? "" : "s"} ${apart.slice(0, 20).join(", ")}${apart.length > 20 ? " and others" : ""}.` : "");
  if (status.reached && !rung) ring();
  rung = status.reached || Boolean(status.ended);
}

function standOfLabelling(status, bound, sure) {
  $("about").textContent = `${status.n_labels.toLocaleString("en")} of ${status.n_texts.toLocaleString("en")} texts labelled` + (who ? ` · ${who}` : "") + (status.n_skipped ? ` · ${status.n_skipped} skipped` : "") + (status.n_omitted ? ` · ${status.n_omitted.toLocaleString("en")} not shown: near-duplicates, or empty` : "");
  $("goal").textContent = status.reached ? `Goal reached: at most ${percent(status.goal)} of new texts wrong, with ${sure}% confidence.` : status.goal === null ? "" : `Goal: at most ${percent(status.goal)} of new texts wrong.`;
  $("certified").textContent = bound === null ? (status.first_model > 0 ? `The first classifier is fitted after ${status.first_model} more training text${status.first_model === 1 ? "" : "s"}.` : "The first classifier is being fitted.") : `Certified: the error rate is at most ${percent(bound)} with ${sure}% confidence.`;
  $("accuracy").textContent = status.accuracy === null ? "" : `Estimate: ${(100 * status.accuracy).toFixed(1)}% of ${status.n_evaluated} evaluation texts are predicted correctly.` + (status.n_waiting > 0 ? ` ${status.n_waiting} more count once the evaluation text in another tab is answered.` : "");
  $("which").textContent = bound === null ? "" : `The certified error rate is that of the classifier fitted on the first ${status.n_training} training texts. The next classifier is fitted when there are twice as many.`;
}

function ring() {
  document.title = "✓ Goal reached";
  try {
    const sound = new AudioContext(), tone = sound.createOscillator(), volume = sound.createGain();
    volume.gain.value = .1;
    tone.frequency.value = 880; tone.connect(volume).connect(sound.destination);
    tone.start(); tone.stop(sound.currentTime + .4);
  } catch (error) { /* no sound here: the words are enough */ }
}

function answer(label) { if (task) go("/answer", {row: task.row, label}); }

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target === $("find")) {
    const text = $("find").value.trim(), button = text ? find(text) : undefined;
    if (event.key === "Escape") { find(""); $("find").blur(); }
    else if (event.key === "Enter" && button) button.click();
    if (event.key !== "Enter" || text) return;
  }
  if (event.key >= "1" && event.key <= "9" && classes[event.key - 1] !== undefined) { event.preventDefault(); answer(classes[event.key - 1]); }
  else if (event.key === "Enter" && task && checking && task.guess !== null) { event.preventDefault(); answer(task.guess); }
  else if (event.key === "/" && !$("find").hidden) { event.preventDefault(); $("find").focus(); }
  else if (event.key === "s") answer(null);
  else if (event.key === "u") go("/undo");
});
$("find").addEventListener("input", () => find($("find").value));
$("skip").addEventListener("click", () => answer(null));
$("undo").addEventListener("click", () => go("/undo"));
$("results").addEventListener("click", async () => {
  $("written").textContent = "Writing ...";
  const found = await ask("/results");
  $("written").textContent = found ? found.written.join(" ") : "";
});
// another tab may show the text at once; a reload gets it again
addEventListener("pagehide", () => fetch("/leave", {method: "POST", keepalive: true, headers: {"content-type": "application/json", authorization: "Bearer " + key}, body: JSON.stringify({tab})}));
go("/next");
