"use strict";
// While a run goes on, its page asks for what is new. It stops when the run has ended.
var Evigraph = globalThis.Evigraph || {};
(() => {
  const EVERY = 2000, PATIENCE = 5;
  const table = document.getElementById("cases");
  if (!table || !Evigraph.began) return;
  const said = document.getElementById("live");
  let version = 0, reviews = "", failures = 0, asking = false;

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
      if (!note || !bars) continue;
      note.textContent = Evigraph.plain(chart.note);
      bars.replaceChildren(...chart.bars.map(([label, length]) => {
        const row = document.createElement("tr");
        row.insertCell().textContent = Evigraph.plain(label).replaceAll("_", " ");
        const bar = document.createElement("progress");
        [bar.max, bar.value, bar.ariaHidden] = [chart.most, length, "true"];
        row.insertCell().append(bar);
        const cell = row.insertCell();
        cell.className = "n";
        cell.textContent = length.toLocaleString("en");
        return row;
      }));
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
