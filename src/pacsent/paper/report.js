const views = [], dark = matchMedia("(prefers-color-scheme: dark)");
const look = night => { const ink = night ? "#e7eaee" : "#1b1f24", line = night ? "#343b43" : "#d9dee4";
  return {background: "transparent", font: "system-ui, sans-serif", text: {color: ink},
    view: {stroke: "transparent"}, legend: {labelColor: ink, labelFontSize: 13},
    axis: {labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line,
      labelFontSize: 13, titleFontSize: 13, titleFontWeight: 400}}; };
async function draw(night) {
  for (const place of document.querySelectorAll("[data-chart]")) {
    const made = await vegaEmbed(place, CHARTS[place.dataset.chart], {config: look(night),
      renderer: "svg", actions: {export: true, source: false, compiled: false, editor: false}});
    views[place.dataset.chart] = made.view;
  }
  document.body.dataset.drawn = "yes";
}
if (window.vegaEmbed) {
  draw(dark.matches);
  dark.addEventListener("change", () => draw(dark.matches));
  addEventListener("beforeprint", () => dark.matches && draw(false));
}
const wanted = document.getElementById("wanted");
if (wanted) wanted.addEventListener("input", () => {
  const text = wanted.value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  for (const view of views) if (view) view.signal("wanted", text).runAsync();
  for (const row of document.querySelectorAll("tbody tr:not(.group)"))
    row.hidden = !row.textContent.toLowerCase().includes(wanted.value.toLowerCase());
});
for (const box of document.querySelectorAll("[data-toggle]")) box.addEventListener("change", () => {
  for (const figure of document.querySelectorAll("figure[data-dataset='" + box.dataset.toggle + "']"))
    figure.hidden = !box.checked;
});
addEventListener("beforeprint", () => { for (const d of document.querySelectorAll("details")) d.open = true; });
for (const head of document.querySelectorAll("thead th")) {
  head.tabIndex = 0;
  const sort = () => {
    const table = head.closest("table"), column = head.cellIndex;
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = row => { const text = (row.cells[column] || row.cells[0]).innerText;
      const number = parseFloat(text.replace(/,/g, "")); return isNaN(number) ? text : number; };
    const rows = [...table.tBodies[0].rows].filter(row => !row.classList.contains("group"));
    for (const group of table.querySelectorAll("tr.group")) group.remove();
    rows.sort((a, b) => { const [x, y] = [value(a), value(b)];
      return (x < y ? 1 : x > y ? -1 : 0) * (down ? 1 : -1); });
    table.tBodies[0].append(...rows);
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", e => { if (e.key === "Enter") sort(); });
}
