"use strict";
// While a question is answered, its page shows each node as it begins and ends; then it is read again.
(() => {
  const list = document.getElementById("nodes"), status = document.getElementById("status");
  const rows = new Map(), seen = new Set();
  for (const row of list.querySelectorAll("[data-node]")) rows.set(row.dataset.node, { row, begun: 0, ended: 0, failed: false });
  const show = (node) => {
    const { row, begun, ended, failed } = node;
    row.className = failed ? "failed" : begun > ended ? "running" : ended ? "done" : "still";
    row.querySelector(".times").textContent = ended > 1 || begun > 1 ? `${ended} of ${begun}` : "";
  };
  const source = new EventSource(list.dataset.events);
  source.addEventListener("step", (event) => {
    const step = JSON.parse(event.data), node = rows.get(step.node);
    const moment = `${step.execution} ${step.seconds === null}`;
    // A stream that was interrupted begins with what it has sent already.
    if (!node || seen.has(moment)) return;
    seen.add(moment);
    if (status.textContent !== "running") { status.textContent = "running"; status.className = "state running"; }
    if (step.seconds === null) node.begun += 1;
    else {
      node.ended += 1;
      node.begun = Math.max(node.begun, node.ended);
      node.failed = node.failed || Boolean(step.error);
      node.row.querySelector(".because").textContent = step.because;
    }
    show(node);
  });
  source.addEventListener("end", () => {
    source.close();
    location.reload();
  });
})();
