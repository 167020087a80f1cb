"use strict";
// Requests to this server, with the API key that the user typed.
let key = "";

async function request(path, method, body) {
  const headers = key ? {authorization: "Bearer " + key} : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, {method, headers, body});
  if (answer.status === 401) { document.getElementById("key-form").hidden = false; document.getElementById("key").focus(); }
  return answer;
}

async function ask(path, body) {
  const answer = await request(path, body ? "POST" : "GET", body && JSON.stringify(body));
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ? found.error.message : "The server answered " + answer.status + ".");
  return found;
}

function made(name, text, kind) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

function onKey(start) {
  document.getElementById("key-form").addEventListener("submit", event => {
    event.preventDefault();
    const field = document.getElementById("key");
    key = field.value; field.value = ""; start();
  });
}
