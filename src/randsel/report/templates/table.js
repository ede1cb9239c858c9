"use strict";
// Sorting, searching and unfolding of the table. Without this script the whole table is shown.
(() => {
  const table = document.getElementById("features-table");
  if (!table) return;
  const body = table.tBodies[0], rows = Array.from(body.rows), headers = Array.from(table.tHead.rows[0].cells);
  const search = document.getElementById("search"), chosen = document.getElementById("chosen");
  const said = document.getElementById("said"), more = document.getElementById("more");
  const few = 20;
  let all = rows.length <= few;

  const text = rows.map((row) => (row.dataset.name + "\n" + row.dataset.partner).toLowerCase());
  rows.forEach((row, index) => { row.index = index; });

  const show = () => {
    const words = search.value.trim().toLowerCase();
    const narrowed = words !== "" || chosen.checked;
    let matching = 0, shown = 0;
    for (const row of body.rows) {
      const fits = text[row.index].includes(words) && (!chosen.checked || row.dataset.selected === "yes");
      matching += fits;
      row.hidden = !fits || (!all && shown >= few);
      shown += !row.hidden;
    }
    said.textContent = matching === 0 ? "no feature matches" : shown + " of " + matching + (narrowed ? " found" : "") + " shown";
    more.hidden = shown === matching;
    more.textContent = "Show all " + matching;
  };

  const sort = (header) => {
    const column = headers.indexOf(header), first = header.dataset.first || "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const way = header.getAttribute("aria-sort") === first ? other : first;
    headers.forEach((cell) => cell.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", way);
    const sign = way === "ascending" ? 1 : -1, numbers = header.dataset.kind === "number";
    const value = (row) => {
      const raw = row.cells[column].dataset.value;
      return raw === "" ? null : numbers ? Number(raw) : raw;
    };
    const compare = (a, b) => numbers ? a - b : a.localeCompare(b, undefined, { numeric: true });
    // rows without a value come last in both directions; ties stay in the order of their ranks
    rows.map((row) => [row, value(row)])
      .sort(([p, a], [q, b]) => (a === null) - (b === null) || (a === null ? 0 : sign * compare(a, b)) || p.index - q.index)
      .forEach(([row]) => body.appendChild(row));
    show();
  };

  headers.forEach((header) => header.querySelector("button").addEventListener("click", () => sort(header)));
  search.addEventListener("input", show);
  chosen.addEventListener("change", show);
  more.addEventListener("click", () => { all = true; show(); });
  document.documentElement.classList.add("scripted");
  show();
})();
