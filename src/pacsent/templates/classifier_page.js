"use strict";
// The page around the classifier. Texts are only ever set as text, never as markup.
const byId = (id) => document.getElementById(id);
const worker = new Worker(URL.createObjectURL(new Blob([byId("engine").textContent], { type: "text/javascript" })));
const PAGE_ROWS = 50, BATCH_TEXTS = 500, BATCH_CHARACTERS = 200000, MAX_SHOWN_CHARACTERS = 400, MAX_SHOWN_WORDS = 3000;
const explanation = byId("explanation"); // a row of the table, below the one that it explains
const setTexts = (texts) => Object.entries(texts).forEach(([id, text]) => { byId(id).textContent = text; });
const setOf = (row) => (row[3] ? row[3].map((c) => about.classes[c]) : []);
const numberOf = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
let about = null, table = null, answers = [], first = 0, run = 0, isWithdrawn = false;

const call = (action, options = {}) => new Promise((resolve, reject) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data: { result, error } }) => (error === undefined ? resolve(result) : reject(new Error(error)));
  worker.postMessage({ action, ...options }, [port2]);
});

function element(tag, text, attributes = {}) {
  const made = Object.assign(document.createElement(tag), { textContent: text });
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// The names of classes, which may break after "_"; with commas between them, which chips do not show.
function fillWithNames(parent, names, isList) {
  parent.replaceChildren(...names.flatMap((name, i) => {
    const chip = element("span", "", { class: isList ? "chip" : "name", dir: "auto" });
    name.split(/(?<=_)/).forEach((part, j) => chip.append(...(j ? [document.createElement("wbr")] : []), part));
    return i ? [element("span", ", ", { class: "comma" }), chip] : [chip];
  }));
  return parent;
}

// Runs an event's action; what goes wrong is shown in one line.
const guarded = (action) => async (event) => {
  byId("problem").hidden = true;
  try {
    await action(event);
  } catch (error) {
    byId("working").hidden = true;
    byId("problem").hidden = false;
    setTexts({ problem: error.message });
    byId("problem").scrollIntoView({ block: "nearest" });
  }
};

function parseCsv(text) {
  const stated = text.match(/^sep=([,;\t])\r?\n/i); // Excel's way to name the separator
  if (stated) text = text.slice(stated[0].length);
  const firstLine = text.match(/^[^\r\n]*/)[0].replace(/"[^"]*"/g, "");
  const delimiter = stated ? stated[1] : [",", ";", "\t"].reduce((best, d) => (firstLine.split(d).length > firstLine.split(best).length ? d : best));
  const ends = new RegExp(`[${delimiter}\r\n]|$`, "g"), rows = [];
  let row = [];
  for (let i = 0, end; i < text.length; i = end + 1) {
    if (text[i] === '"') {
      for (end = text.indexOf('"', i + 1); end >= 0 && text[end + 1] === '"';) end = text.indexOf('"', end + 2);
      if (end < 0) throw new Error(`Row ${rows.length + 1}: a quoted field is not closed. Check the quotes.`);
      row.push(text.slice(i + 1, end++).replaceAll('""', '"'));
      if (end < text.length && ![delimiter, "\r", "\n"].includes(text[end])) throw new Error(`Row ${rows.length + 1}: text after a closing quote. Double the quotes inside a field.`);
    } else {
      ends.lastIndex = i;
      end = ends.exec(text).index;
      row.push(text.slice(i, end));
    }
    if (text[end] === delimiter && end + 1 < text.length) continue;
    if (text[end] === delimiter) row.push("");
    if (text.startsWith("\r\n", end)) end++;
    if (row.length > 1 || row[0]) rows.push(row);
    row = [];
  }
  const wrong = rows.findIndex((cells) => cells.length !== rows[0].length);
  if (wrong >= 0) throw new Error(`Row ${wrong + 1} has ${numberOf(rows[wrong].length, "field")}, row 1 has ${rows[0].length}. Check its quotes and separators.`);
  if (!rows.length) throw new Error("The file has no rows.");
  return rows;
}

// Whether the first row names the columns. A row that is taken for a text is seen; one that is taken for names is lost.
function isHeader([names, ...rows], column) {
  if (names.some((name) => name.trim().toLowerCase() === "text")) return true;
  const nWords = (cell) => cell.trim().split(/\s+/).length, isName = (cell) => /^[\p{L}_][\p{L}\p{N}_ .-]{0,39}$/u.test(cell.trim());
  if (!names.every(isName) || new Set(names).size < names.length) return false;
  if (rows.some((row) => row.some((cell, c) => cell === names[c]))) return false;
  const nTextWords = rows.slice(0, 100).reduce((sum, row) => sum + nWords(row[column]), 0) / Math.min(rows.length, 100);
  return nWords(names[column]) <= 3 && (rows.length === 0 || nTextWords > 2 * nWords(names[column]));
}

async function openFile([file, another]) {
  byId("file").value = ""; // the same file can be chosen again
  if (!file || another) throw new Error("Open one file at a time.");
  const text = await file.arrayBuffer().then((bytes) => new TextDecoder("utf-8", { fatal: true }).decode(bytes)).catch(() => "\0");
  if (text.includes("\0")) throw new Error(`${file.name} is no text in UTF-8. Save it as CSV (UTF-8).`);
  if (/\.txt$/i.test(file.name)) {
    byId("texts").value = "";
    return openLines(text, file.name);
  }
  const cells = parseCsv(text), length = (c) => cells.slice(1, 100).reduce((n, row) => n + row[c].length, 0);
  const longest = cells[0].reduce((best, _, c) => (length(c) > length(best) ? c : best), 0), named = cells[0].indexOf("text");
  const column = named < 0 ? longest : named;
  byId("header").checked = isHeader(cells, column);
  byId("choice").hidden = false;
  byId("texts").value = ""; // the texts are now those of the file
  await openCells(cells, column, file.name);
}

async function openCells(cells, column, name) {
  const hasHeader = byId("header").checked;
  if (hasHeader && cells.length < 2) throw new Error("The file has no rows below its header.");
  const header = cells[0].map((cell, c) => (hasHeader && cell) || `column ${c + 1}`);
  byId("column").replaceChildren(...header.map((title, c) => element("option", title, { value: c })));
  byId("column").value = column;
  await classify({ cells, header, rows: cells.slice(hasHeader ? 1 : 0), column, name, headerNote: hasHeader ? "the first row is its header" : "it has no header" });
}

async function openLines(text, name) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  if (!lines.length) throw new Error("There is no text. Paste one per line.");
  byId("choice").hidden = true;
  await classify({ header: ["text"], rows: lines.map((line) => [line]), column: 0, name });
}

async function classify(next) {
  const current = ++run, { rows, column } = next;
  table = next, answers = [], first = 0, isWithdrawn = false;
  byId("results").hidden = true;
  byId("working").hidden = false;
  await call("start");
  for (let i = 0; i < rows.length;) {
    const texts = [];
    byId("progress").value = i / rows.length;
    setTexts({ step: `${i.toLocaleString("en")} of ${numberOf(rows.length, "text")}` });
    for (let size = 0; i < rows.length && texts.length < BATCH_TEXTS && size < BATCH_CHARACTERS; i++) size += texts[texts.push(rows[i][column]) - 1].length;
    const batch = await call("classify", { texts });
    if (current !== run) return;
    answers.push(...batch);
  }
  byId("progress").removeAttribute("value");
  setTexts({ step: "Comparing the texts with the calibration set …" });
  const drift = await call("finish"), nEmpty = answers.filter((row) => row === null).length;
  const nAnswered = answers.filter((row) => row && !row[2]).length, nAbstained = rows.length - nEmpty - nAnswered;
  if (current !== run) return;
  byId("working").hidden = true;
  const counts = [next.name && [next.name, next.headerNote].filter(Boolean).join(": "), numberOf(rows.length, "text"), about.rule && `${nAnswered.toLocaleString("en")} answered`, about.rule && `${nAbstained.toLocaleString("en")} abstained`, nEmpty && `${nEmpty.toLocaleString("en")} empty`];
  setTexts({ drift: drift ? drift.message : "", counts: counts.filter(Boolean).join(", ") });
  isWithdrawn = Boolean(drift && drift.differs);
  document.body.classList.toggle("drifted", isWithdrawn);
  document.body.classList.toggle("conditional", Boolean(drift && drift.isConditional));
  byId("results").hidden = false;
  show();
}

function show() {
  byId("rows").replaceChildren(...answers.slice(first, first + PAGE_ROWS).map((row, i) => {
    const text = table.rows[first + i][table.column], line = element("tr", "");
    const shown = text.length > MAX_SHOWN_CHARACTERS ? `${text.slice(0, MAX_SHOWN_CHARACTERS)} …` : text;
    line.append(element("td", shown, { class: "text", dir: "auto", lang: "" }));
    if (row === null) {
      line.append(element("td", "empty: no class", { "data-name": "prediction", class: "abstained" }), element("td", "", { "data-name": "probability" }));
      if (about.rule) line.append(element("td", "", { "data-name": "set" }));
      line.append(element("td", ""));
      return line;
    }
    const label = about.classes[row[0]], last = element("td", "");
    const shownLabel = row[2] ? `abstains (${row[4] || label})` : label;
    line.append(fillWithNames(element("td", "", { "data-name": "prediction", class: row[2] ? "abstained" : "" }), [shownLabel]));
    line.append(element("td", row[1].toFixed(3), { "data-name": "probability", class: "number" }));
    const set = setOf(row), noSet = element("td", row[3] ? "empty" : "not known", { "data-name": "set", class: "quiet" });
    if (about.rule) line.append(set.length ? fillWithNames(element("td", "", { "data-name": "set" }), set, true) : noSet);
    line.append(last);
    last.append(element("button", "Why?", { type: "button", class: "plain" }));
    last.firstChild.onclick = guarded(() => explain(line, text, row[0]));
    return line;
  }));
  setTexts({ shown: `${(first + 1).toLocaleString("en")} to ${Math.min(first + PAGE_ROWS, answers.length).toLocaleString("en")} of ${answers.length.toLocaleString("en")}` });
  byId("previous").disabled = first === 0;
  byId("next").disabled = first + PAGE_ROWS >= answers.length;
}

async function explain(line, text, label) {
  const { chunks, isComplete, decision, rest } = await call("explain", { text, label, nShown: MAX_SHOWN_WORDS });
  const largest = Math.max(...chunks.map((chunk) => Math.abs(chunk.value)), 1e-12), parts = [];
  let done = 0;
  for (const { start, end, value } of chunks) {
    const step = Math.ceil(3 * Math.abs(value) / largest - 0.15);
    parts.push(text.slice(done, start), element("span", text.slice(start, end), { class: step > 0 ? `${value > 0 ? "for" : "against"}${step}` : "", title: value.toFixed(3) }));
    done = end;
  }
  line.after(explanation);
  byId("words").replaceChildren(...parts, isComplete ? text.slice(done) : " …");
  setTexts({ explained: `Why ${about.classes[label]}?`, rest: rest.toFixed(3), decision: decision.toFixed(3) });
  explanation.hidden = false;
  explanation.scrollIntoView({ block: "nearest" });
}

function download() {
  const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const own = ["prediction", "probability", ...(about.rule ? ["set", "abstained", "reason"] : [])];
  const header = [...table.header.map((name) => (own.includes(name) ? `input_${name}` : name)), ...own];
  const reasonOf = (reason) => (isWithdrawn ? [reason, "drift: no guarantee"].filter(Boolean).join("; ") : reason);
  const setCell = (row) => (isWithdrawn ? "" : setOf(row).map(quoted).join(","));
  const guaranteed = (row) => (about.rule ? [setCell(row), row[2] || isWithdrawn ? "yes" : "no", reasonOf(row[4])] : []);
  const ofEmpty = { abstained: "yes", reason: reasonOf("no text") };
  const predicted = (row) => (row ? [about.classes[row[0]], row[1].toFixed(6), ...guaranteed(row)] : own.map((name) => ofEmpty[name] || ""));
  const rows = answers.map((row, i) => [...table.rows[i], ...predicted(row)]);
  const content = [header, ...rows].map((cells) => `${cells.map(quoted).join(",")}\r\n`).join("");
  const link = element("a", "", { download: "predictions.csv", href: URL.createObjectURL(new Blob(["\ufeff", content], { type: "text/csv" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function start() {
  about = await call("open", { data: byId("data").textContent });
  byId("data").remove();
  setTexts({ about: "", named_count: `${about.classes.length} classes` });
  fillWithNames(byId("classes"), about.classes, true);
  byId("named").hidden = false;
  byId("head").replaceChildren(...["text", "prediction", "probability", ...(about.rule ? ["set"] : []), ""].map((name) => element("th", name)));
  for (const id of ["classify", "file"]) byId(id).disabled = false;
  if (!about.rule) return;
  setTexts({ summary: about.certificate.summary, statement: about.rule.statement });
  byId("certificate").replaceChildren(...about.certificate.rows.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
  byId("guarantee").hidden = false;
}

byId("classify").onclick = guarded(() => openLines(byId("texts").value));
byId("file").onchange = guarded((event) => openFile(event.target.files));
for (const id of ["column", "header"]) byId(id).onchange = guarded(() => openCells(table.cells, Number(byId("column").value), table.name));
byId("download").onclick = guarded(download);
byId("verify").onclick = guarded(async () => byId("checks").replaceChildren(...(await call("verify")).map(({ text, verdict }) => element("li", text, { class: verdict }))));
for (const [id, step] of [["previous", -PAGE_ROWS], ["next", PAGE_ROWS]]) byId(id).onclick = () => { first += step, show(); };
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, guarded(async (event) => {
    if (!event.dataTransfer.types.includes("Files")) return; // a dragged text goes into the field
    event.preventDefault();
    document.body.classList.toggle("dropping", name === "dragover");
    if (name === "drop" && about) await openFile(event.dataTransfer.files);
  }));
}
guarded(start)();
