// Brings details nearer and sorts tables; the page says everything without it.
"use strict";
const tip = document.getElementById("tip");
for (const title of document.querySelectorAll("svg title")) {
  const mark = title.parentElement;
  mark.dataset.tip = title.textContent;
  mark.setAttribute("aria-label", title.textContent);
  title.remove();
}
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  const below = event.clientY + 18;
  tip.style.top = (below + box.height > innerHeight ? event.clientY - box.height - 10 : below) + "px";
});
const key = (row, column) => {
  const cell = row.cells[column];
  return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
};
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    head.dataset.sorts = "";
    head.tabIndex = 0;
    const sort = () => {
      const numeric = head.classList.contains("n");
      const ascending = head.ariaSort ? head.ariaSort === "descending" : !numeric;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const [x, y] = [key(a, column), key(b, column)];
        return (typeof x === "number" ? x - y : x.localeCompare(y)) * (ascending ? 1 : -1);
      });
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}
