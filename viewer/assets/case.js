// The page works without this: it adds light between answer and evidence, keys, and calls in place.
"use strict";

document.documentElement.classList.add("scripted");

const sentences = [...document.querySelectorAll(".sentence")];
const stated = [...document.querySelectorAll(".stated")];
const evidenceOf = new Map(stated.map((one) => [one.id, one.dataset.evidence.trim().split(/\s+/).filter(Boolean)]));
const statedOn = new Map();
for (const [answer, evidence] of evidenceOf) {
  for (const id of evidence) statedOn.set(id, [...(statedOn.get(id) ?? []), answer]);
}

function light(element) {
  for (const one of document.querySelectorAll(".lit:is(.sentence, .stated)")) one.classList.remove("lit");
  if (!element) return;
  for (const id of evidenceOf.get(element.id) ?? statedOn.get(element.id) ?? []) {
    document.getElementById(id)?.classList.add("lit");
  }
}

for (const one of [...stated, ...sentences]) {
  one.addEventListener("mouseenter", () => light(one));
  one.addEventListener("focusin", () => light(one));
  one.addEventListener("mouseleave", () => light(null));
  one.addEventListener("focusout", () => light(null));
}

// A link to a sentence or a step also opens it.
function openTarget() {
  const target = /^#(s|step)-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
  const details = target && target.matches(".sentence") && target.querySelector("details");
  if (details) details.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();

const panel = document.getElementById("call");
const content = document.getElementById("call-content");
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a.call");
  const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  // A page from disk may fetch nothing: its links are followed.
  if (!link || !plain || location.protocol === "file:") return;
  event.preventDefault();
  try {
    const response = await fetch(link.href);
    if (!response.ok) throw new Error(String(response.status));
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    content.replaceChildren(...page.querySelector("main").childNodes);
    panel.showModal();
    panel.scrollTop = 0;
  } catch {
    location.href = link.href;
  }
});

panel.addEventListener("click", (event) => {
  if (event.target.closest("a")) panel.close();
});
document.getElementById("show-keys").addEventListener("click", () => keys["?"]());

function step(forward) {
  const summaries = sentences.map((one) => one.querySelector("summary"));
  const here = sentences.findIndex((one) => one.contains(document.activeElement));
  const next = here < 0 ? (forward ? 0 : summaries.length - 1) : here + (forward ? 1 : -1);
  summaries[next]?.focus();
}

const keys = {
  p: () => document.getElementById("previous")?.click(),
  n: () => document.getElementById("next")?.click(),
  j: () => step(true),
  k: () => step(false),
  "?": () => document.getElementById("keys").showModal(),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// A reviewed case that goes on: the page is read again as soon as something has changed.
const waiting = document.querySelector("[data-state]");
if (waiting) {
  let before = null;
  const ask = async () => {
    try {
      const answer = await fetch(waiting.dataset.state);
      if (!answer.ok) throw new Error(String(answer.status));
      const found = JSON.stringify(await answer.json());
      if (before !== null && found !== before) return location.reload();
      before = found;
    } catch {
      // The server was ended: the page stays as it is.
      return;
    }
    if (JSON.parse(before).status === "waiting") setTimeout(ask, 1000);
    else location.reload();
  };
  ask();
}

// The ranker is loaded on first use, which takes seconds.
document.getElementById("verify")?.addEventListener("click", (event) => {
  if (event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey)
    document.querySelector(".verifying").textContent = "Looking; the first time takes some seconds.";
});
addEventListener("pageshow", () => {
  const said = document.querySelector(".verifying");
  if (said) said.textContent = "";
});
