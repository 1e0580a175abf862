// Keys of a review. The form works without them.
"use strict";

const reviewPanel = document.getElementById("review-panel");
const reviewForm = document.getElementById("review-form");

function choose(value) {
  const sentence = reviewPanel.open && document.activeElement.closest(".sentence");
  const choice = sentence && sentence.querySelector(`.choice input[value="${value}"]`);
  if (!choice) return;
  choice.checked = true;
  choice.dispatchEvent(new Event("change", { bubbles: true }));
}

keys.e = () => choose("essential");
keys.s = () => choose("supplementary");
keys.x = () => choose("not-relevant");
keys.r = () => { reviewPanel.open = !reviewPanel.open; };

// What was typed is not lost by a key that leads to another case.
let leaving = false;
const changed = (field) =>
  field.type === "radio" || field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
reviewForm.addEventListener("submit", () => { leaving = true; });
addEventListener("beforeunload", (event) => {
  if (!leaving && [...reviewForm.elements].some((field) => /^(radio|checkbox|textarea)$/.test(field.type) && changed(field))) event.preventDefault();
});

addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !event.ctrlKey || !reviewPanel.open || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  reviewForm.requestSubmit(reviewForm.querySelector("button[value=next]"));
});
