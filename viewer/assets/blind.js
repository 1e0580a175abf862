// Keys of a blind review. The form works without them.
"use strict";
(() => {
  const form = document.getElementById("blind-form");
  const sentences = [...document.querySelectorAll(".sentence")];
  const here = () => sentences.findIndex((one) => one.contains(document.activeElement));
  const go = (at) => {
    sentences[at]?.focus({ preventScroll: true });
    sentences[at]?.scrollIntoView({ block: "nearest" });
  };
  const step = (by) => go(here() < 0 ? (by > 0 ? 0 : sentences.length - 1) : here() + by);
  const choose = (value) => {
    const at = here();
    if (at < 0) return;
    sentences[at].querySelector(`input[value="${value}"]`).checked = true;
    go(Math.min(at + 1, sentences.length - 1));
  };
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    e: () => choose("essential"),
    s: () => choose("supplementary"),
    x: () => choose("not-relevant"),
    u: () => sentences[here()]?.querySelector("input[type=checkbox]").click(),
    a: () => document.getElementById("rest").click(),
    ".": () => document.getElementById("skip").click(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey) {
      event.preventDefault();
      form.requestSubmit(form.querySelector("button[value=next]"));
      return;
    }
    const typing = event.target.closest("input:not([type=radio], [type=checkbox]), textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  const open = sentences.findIndex((one) => !one.querySelector("input[type=radio]:checked"));
  go(open < 0 ? 0 : open);
})();
