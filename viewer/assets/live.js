"use strict";
// While a run goes on, its page asks for what is new. It stops when the run has ended.
var Evigraph = globalThis.Evigraph || {};
(() => {
  const EVERY = 2000, CHARTS_EVERY = 6000, PATIENCE = 5;
  const table = document.getElementById("cases");
  if (!table || !Evigraph.began) return;
  const said = document.getElementById("live");
  let version = 0, reviews = "", charted = 0, failures = 0, stale = false, asking = false;

  const tell = (facts) => {
    for (const place of document.querySelectorAll("[data-live]")) {
      const text = facts[place.dataset.live];
      if (text === undefined || place.textContent === text) continue;
      place.textContent = Evigraph.plain(text);
      if (place.dataset.live === "status") place.className = "state " + text;
      if (place.dataset.live === "cases") said.textContent = place.textContent;
    }
  };
  const count = (charts) => {
    for (const [name, chart] of Object.entries(charts)) {
      const note = document.querySelector(`[data-note="${name}"]`);
      const bars = document.querySelector(`[data-bars="${name}"]`);
      const image = document.querySelector(`[data-chart="${name}"]`);
      if (!note || !bars || !image) continue;
      note.textContent = Evigraph.plain(chart.note);
      image.alt = `${image.dataset.title}. ${note.textContent}`;
      bars.replaceChildren(...chart.bars.map(([label, length]) => {
        const row = document.createElement("tr");
        row.insertCell().textContent = Evigraph.plain(label);
        const cell = row.insertCell();
        cell.className = "n";
        cell.textContent = length.toLocaleString("en");
        return row;
      }));
      stale = true;
    }
  };
  const redraw = (now) => {
    if (!stale || (!now && Date.now() - charted < CHARTS_EVERY)) return;
    [stale, charted] = [false, Date.now()];
    for (const image of document.querySelectorAll("[data-chart]")) {
      const address = image.src.split("?")[0] + "?version=" + version;
      // Shown once it is there, so that nothing flickers.
      const next = new Image();
      next.onload = () => { image.src = address; };
      next.src = address;
    }
  };
  const ask = async () => {
    let going = true;
    asking = true;
    try {
      const given = await Evigraph.read(table, version, reviews);
      failures = 0;
      [version, reviews] = [given.version, given.reviews_version];
      tell(given.live);
      count(given.charts);
      Evigraph.merge(given);
      going = given.status === "running";
      redraw(!going);
    } catch {
      failures += 1;
      going = failures < PATIENCE;
      if (!going) said.classList.remove("hidden");
      if (!going) said.textContent = "The server does not answer any more. Start it again, and open its new link.";
    }
    asking = going;
    if (going) setTimeout(ask, EVERY);
  };

  Evigraph.began.then((given) => {
    [version, reviews] = [given.version, given.reviews_version];
    if (globalThis.evigraphRows) return;
    asking = given.status === "running";
    if (asking) setTimeout(ask, EVERY);
    // A run that has ended still comes to reviews, mostly by its reader in another tab.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && !asking) ask();
    });
  }, () => {});
})();
