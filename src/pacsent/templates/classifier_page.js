"use strict";
// The page around the classifier. Texts are only ever set as text, never as markup.
const byId = (id) => document.getElementById(id);
const worker = new Worker(URL.createObjectURL(new Blob([byId("engine").textContent], { type: "text/javascript" })));
const PAGE_ROWS = 50, BATCH_TEXTS = 500, BATCH_CHARACTERS = 200000, MAX_SHOWN_CHARACTERS = 400, MAX_SHOWN_WORDS = 3000;
const setTexts = (texts) => Object.entries(texts).forEach(([id, text]) => { byId(id).textContent = text; });
const setOf = (row) => (row[3] ? row[3].map((c) => about.classes[c]) : []);
let about = null, table = null, answers = [], first = 0, run = 0;

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

// Runs an event's action; what goes wrong is shown in one line.
const guarded = (action) => async (event) => {
  byId("problem").hidden = true;
  try {
    await action(event);
  } catch (error) {
    byId("progress").hidden = true;
    byId("problem").hidden = false;
    setTexts({ problem: error.message });
  }
};

function parseCsv(text) {
  const firstLine = text.match(/^[^\r\n]*/)[0].replace(/"[^"]*"/g, "");
  const delimiter = [",", ";", "\t"].reduce((best, d) => (firstLine.split(d).length > firstLine.split(best).length ? d : best));
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
  if (wrong >= 0) throw new Error(`Row ${wrong + 1} has ${rows[wrong].length} fields, the header has ${rows[0].length}. Check its quotes and separators.`);
  if (rows.length < 2) throw new Error("The file has no rows below its header.");
  return { header: rows[0], rows: rows.slice(1) };
}

async function openFile([file]) {
  byId("file").value = ""; // the same file can be chosen again
  if (!file) return;
  const text = await file.arrayBuffer().then((bytes) => new TextDecoder("utf-8", { fatal: true }).decode(bytes)).catch(() => "\0");
  if (text.includes("\0")) throw new Error(`${file.name} is no text in UTF-8. Save it as CSV (UTF-8).`);
  if (/\.txt$/i.test(file.name)) return openLines(text);
  const parsed = parseCsv(text), length = (c) => parsed.rows.slice(0, 100).reduce((n, row) => n + row[c].length, 0);
  const longest = parsed.header.reduce((best, _, c) => (length(c) > length(best) ? c : best), 0);
  byId("column").replaceChildren(...parsed.header.map((name, c) => element("option", name || `column ${c + 1}`, { value: c })));
  byId("column").value = longest;
  byId("choice").hidden = false;
  await classify({ ...parsed, column: longest });
}

async function openLines(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  if (!lines.length) throw new Error("There is no text. Paste one per line.");
  byId("choice").hidden = true;
  await classify({ header: ["text"], rows: lines.map((line) => [line]), column: 0 });
}

async function classify(next) {
  const current = ++run, { rows, column } = next;
  table = next, answers = [], first = 0;
  for (const id of ["results", "explanation"]) byId(id).hidden = true;
  byId("progress").hidden = false;
  await call("start");
  for (let i = 0; i < rows.length;) {
    const texts = [];
    for (let size = 0; i < rows.length && texts.length < BATCH_TEXTS && size < BATCH_CHARACTERS; i++) size += texts[texts.push(rows[i][column]) - 1].length;
    const batch = await call("classify", { texts });
    if (current !== run) return;
    answers.push(...batch);
    byId("progress").value = i / rows.length;
  }
  const drift = await call("finish"), nAnswered = answers.filter((row) => !row[2]).length;
  if (current !== run) return;
  byId("progress").hidden = true;
  setTexts({ drift: drift ? drift.message : "", counts: `${answers.length} texts${about.rule ? `, ${nAnswered} answered` : ""}.` });
  byId("drift").className = drift && drift.differs ? "drifted" : "";
  byId("results").hidden = false;
  show();
}

function show() {
  byId("rows").replaceChildren(...answers.slice(first, first + PAGE_ROWS).map((row, i) => {
    const text = table.rows[first + i][table.column], label = about.classes[row[0]], line = element("tr", ""), last = element("td", "");
    const shown = text.length > MAX_SHOWN_CHARACTERS ? `${text.slice(0, MAX_SHOWN_CHARACTERS)} …` : text;
    line.append(element("td", shown, { class: "text", dir: "auto", lang: "" }));
    line.append(element("td", row[2] ? `abstains (${label})` : label, { "data-name": "label", class: row[2] ? "abstained" : "", dir: "auto" }));
    line.append(element("td", row[1].toFixed(3), { "data-name": "probability", class: "number" }));
    if (about.rule) line.append(element("td", setOf(row).join(", ") || "none", { "data-name": "set", dir: "auto" }));
    line.append(last);
    last.append(element("button", "Why?", { type: "button", class: "plain" }));
    last.firstChild.onclick = guarded(() => explain(text, row[0]));
    return line;
  }));
  byId("shown").textContent = `${first + 1} to ${Math.min(first + PAGE_ROWS, answers.length)} of ${answers.length}`;
  byId("previous").disabled = first === 0;
  byId("next").disabled = first + PAGE_ROWS >= answers.length;
}

async function explain(text, label) {
  const { chunks, decision, rest } = await call("explain", { text, label });
  const largest = Math.max(...chunks.map((chunk) => Math.abs(chunk.value)), 1e-12), parts = [];
  let done = 0;
  for (const { start, end, value } of chunks.slice(0, MAX_SHOWN_WORDS)) {
    const step = Math.ceil(3 * Math.abs(value) / largest - 0.15);
    parts.push(text.slice(done, start), element("span", text.slice(start, end), { class: step > 0 ? `${value > 0 ? "for" : "against"}${step}` : "", title: value.toFixed(3) }));
    done = end;
  }
  byId("words").replaceChildren(...parts, chunks.length > MAX_SHOWN_WORDS ? " …" : text.slice(done));
  setTexts({ explained: `Why ${about.classes[label]}?`, rest: rest.toFixed(3), decision: decision.toFixed(3) });
  byId("explanation").hidden = false;
  byId("explanation").scrollIntoView({ block: "nearest" });
}

function download() {
  const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const own = ["label", "probability", ...(about.rule ? ["set", "abstained"] : [])];
  const lines = [[...table.header.map((name) => (own.includes(name) ? `input_${name}` : name)), ...own]];
  answers.forEach((row, i) => {
    const guaranteed = about.rule ? [setOf(row).map(quoted).join(","), row[2] ? "yes" : "no"] : [];
    lines.push([...table.rows[i], about.classes[row[0]], row[1].toFixed(6), ...guaranteed]);
  });
  const content = lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
  const link = element("a", "", { download: "predictions.csv", href: URL.createObjectURL(new Blob(["\ufeff", content], { type: "text/csv" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function start() {
  about = await call("open", { data: byId("data").textContent });
  byId("data").remove();
  byId("about").textContent = `${about.classes.length} classes: ${about.classes.slice(0, 12).join(", ")}${about.classes.length > 12 ? ", …" : ""}.`;
  byId("head").replaceChildren(...["text", "label", "probability", ...(about.rule ? ["set"] : []), ""].map((name) => element("th", name)));
  for (const id of ["classify", "file"]) byId(id).disabled = false;
  if (!about.rule) return;
  setTexts({ summary: about.certificate.summary, statement: about.rule.statement });
  byId("certificate").replaceChildren(...about.certificate.rows.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
  byId("guarantee").hidden = false;
}

async function verify() {
  byId("checks").replaceChildren(...(await call("verify")).map(({ text, verdict }) => element("li", text, { class: verdict })));
}

byId("classify").onclick = guarded(() => openLines(byId("texts").value));
byId("file").onchange = guarded((event) => openFile(event.target.files));
byId("column").onchange = guarded((event) => classify({ ...table, column: Number(event.target.value) }));
for (const action of [verify, download]) byId(action.name).onclick = guarded(action);
for (const [id, step] of [["previous", -PAGE_ROWS], ["next", PAGE_ROWS]]) byId(id).onclick = () => { first += step, show(); };
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, guarded((event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", name === "dragover");
    return name === "drop" && about && openFile(event.dataTransfer.files);
  }));
}
guarded(start)();
