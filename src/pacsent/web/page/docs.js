"use strict";
// The addresses of openapi.json, each with its fields and a form that sends a request.
let schemas = {};

function resolved(schema) {
  return schema && schema.$ref ? schemas[schema.$ref.split("/").pop()] : schema || {};
}

function kindOf(field) {
  const some = field.anyOf || field.oneOf;
  if (some) return [...new Set(some.map(kindOf))].filter(kind => kind !== "null").join(" or ");
  if (field.enum) return field.enum.map(value => JSON.stringify(value)).join(" or ");
  if (field.type === "array") return "list of " + kindOf(field.items || {}) + "s";
  return {string: "text", integer: "integer", number: "number", boolean: "true or false"}[field.type] || field.type || "any";
}

function fieldsOf(schema) {
  const table = made("table"), body = made("tbody"), required = schema.required || [];
  for (const [name, field] of Object.entries(schema.properties || {})) {
    const row = made("tr"), cell = made("td"), limits = [];
    cell.append(made("code", name));
    if (required.includes(name)) limits.push("required");
    else if (field.default !== undefined && field.default !== null) limits.push("default " + JSON.stringify(field.default));
    row.append(cell, made("td", kindOf(field)), made("td", [field.description, limits.length ? `(${limits.join(", ")})` : ""].filter(Boolean).join(" ")));
    body.append(row);
  }
  table.append(body);
  return table;
}

function tryIt(path, method, example) {
  const form = made("form"), output = made("pre", undefined, "answer"), row = made("span", undefined, "row");
  const inputs = {}, status = made("span", undefined, "quiet"), button = made("button", "Send");
  output.hidden = true; output.tabIndex = 0; status.setAttribute("aria-live", "polite");
  for (const [mark, name] of path.matchAll(/{(\w+)}/g)) {
    const label = made("label", name + " "), input = made("input");
    inputs[mark] = input; label.append(input); form.append(label);
  }
  let text = null;
  if (method === "post") {
    text = made("textarea", JSON.stringify(example || {}, null, 1));
    text.rows = 4; text.spellcheck = false; text.setAttribute("aria-label", "Body of the request");
    form.append(text);
  }
  row.append(button, status); form.append(row, output);
  form.addEventListener("submit", async event => {
    event.preventDefault();
    let address = path;
    for (const [mark, input] of Object.entries(inputs)) address = address.replace(mark, encodeURIComponent(input.value));
    const began = performance.now();
    try {
      const answer = await request(address, method.toUpperCase(), text ? text.value : undefined);
      const found = await answer.text();
      status.textContent = `${answer.status}, ${found.length.toLocaleString("en")} characters, ${(performance.now() - began).toFixed(0)} ms`;
      let shown = found;
      try { shown = JSON.stringify(JSON.parse(found), null, 1); } catch { /* metrics are plain text */ }
      output.textContent = shown.length > 20000 ? shown.slice(0, 20000) + "\n…" : shown;
      output.hidden = false;
    } catch { status.textContent = "The server cannot be reached."; }
  });
  return form;
}

async function start() {
  const problem = document.getElementById("problem");
  try {
    const found = await ask("/openapi.json");
    schemas = (found.components || {}).schemas || {};
    document.getElementById("about").textContent = `${found.info.title} ${found.info.version}`;
    document.getElementById("key-form").hidden = problem.hidden = true;
    document.getElementById("addresses").replaceChildren(...Object.entries(found.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, about]) => {
        const section = made("section"), heading = made("h2");
        heading.append(made("code", `${method.toUpperCase()} ${path}`));
        section.append(heading, made("p", about.summary + "."));
        const content = ((about.requestBody || {}).content || {})["application/json"];
        const schema = content && resolved(content.schema);
        if (schema) section.append(fieldsOf(schema));
        const more = made("details");
        more.append(made("summary", "Try it"), tryIt(path, method, schema && schema.example));
        section.append(more);
        return section;
      })));
    document.body.dataset.ready = "yes";
  } catch (error) { problem.hidden = false; problem.textContent = error.message || "The server cannot be reached."; }
}

onKey(start);
start();
