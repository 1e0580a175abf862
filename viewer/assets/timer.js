// Seconds that a case is before its reviewer: while its page is visible and something was done within a minute.
// What was read before a case was skipped counts when it is reviewed.
"use strict";
(() => {
  const field = document.querySelector("[data-timer]");
  if (!field) return;
  const STEP = 250, IDLE = 60_000;
  const place = "seconds " + location.pathname + "?" + new URLSearchParams(location.search).get("id");
  let seconds = Number(sessionStorage.getItem(place)) || 0, last = Date.now(), active = Date.now();
  for (const kind of ["keydown", "pointermove", "pointerdown", "wheel", "focus"])
    addEventListener(kind, () => { active = Date.now(); }, { passive: true });
  const count = () => {
    const now = Date.now();
    // Time asleep is not reading time.
    if (!document.hidden && now - active < IDLE) seconds += Math.min(now - last, 2 * STEP) / 1000;
    last = now;
    field.value = seconds.toFixed(1);
  };
  setInterval(count, STEP);
  let sent = false;
  field.form.addEventListener("submit", () => {
    count();
    sent = true;
  });
  addEventListener("pagehide", () => {
    if (sent) sessionStorage.removeItem(place);
    else sessionStorage.setItem(place, seconds.toFixed(1));
  });
})();
