"use strict";
// Tables with data-sortable are sorted by the buttons of their heads; runs are compared in the order of their ticks.
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const compare = (one, other) =>
    typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (head.querySelector(".hidden")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((one, other) => (down ? -1 : 1) * compare(value(one, column), value(other, column)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  const MOST = 8;
  const form = document.querySelector("form.compare");
  if (!form) return;
  const boxes = [...form.querySelectorAll("input[name=run]")];
  const submit = form.querySelector("button[type=submit]");
  // The run that was ticked first is A.
  let ticked = boxes.filter((box) => box.checked);
  const limit = () => {
    submit.disabled = ticked.length < 2;
    for (const box of boxes) box.disabled = ticked.length === MOST && !box.checked;
  };
  for (const box of boxes) box.addEventListener("change", () => {
    ticked = ticked.filter((other) => other !== box);
    if (box.checked) ticked.push(box);
    limit();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.href = form.action + "?" + new URLSearchParams(ticked.map((box) => ["run", box.value]));
  });
  limit();
})();
