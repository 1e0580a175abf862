"use strict";
// The table of cases: a page of rows at a time. Its state stands behind the # of the address, so that Back
// returns to the same place.
var Evigraph = globalThis.Evigraph || {};
(() => {
  const PAGE = 100;
  const table = document.getElementById("cases");
  if (!table) return;
  const body = table.tBodies[0];
  const form = document.getElementById("filters");
  const outcomes = table.classList.contains("outcomes");
  // A small screen has no room for charts and filters above the cases.
  const filtering = form.closest("details");
  if (matchMedia("(max-width: 40rem)").matches)
    for (const one of document.querySelectorAll(".folds")) one.open = one === filtering && location.hash.length > 1;
  const found = document.getElementById("found"), place = document.getElementById("page");
  const keys = document.getElementById("keys");
  const fields = ["q", "status", "error", "intent", "flag", "review", "divided", "wrong", "through", "past", "route"];
  const start = { ...Object.fromEntries(fields.map((name) => [name, ""])), sort: "position", page: 0, at: "" };
  let state = { ...start };
  let rows = [], places = new Map(), matches = [];

  // State and address.
  const readAddress = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    state = { ...start };
    for (const name of [...fields, "sort", "at"]) if (given.has(name)) state[name] = given.get(name);
    if (!table.querySelector(`[data-sort="${CSS.escape(state.sort.replace("-", ""))}"]`)) state.sort = start.sort;
    state.page = Math.max(0, (parseInt(given.get("page"), 10) || 1) - 1);
  };
  const writeAddress = () => {
    const kept = new URLSearchParams();
    for (const name of [...fields, "sort", "at"]) if (state[name] !== start[name]) kept.set(name, state[name]);
    if (state.page) kept.set("page", state.page + 1);
    const hash = kept.toString();
    history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
  };

  // Drawing.
  const cell = (row, text, kind, title) => {
    const made = row.insertCell();
    if (kind) made.className = kind;
    if (title) made.title = Evigraph.plain(title);
    made.textContent = text === null || text === undefined ? "" : Evigraph.plain(text);
    return made;
  };
  const number = new Intl.NumberFormat("en");
  const drawRow = (case_) => {
    const row = document.createElement("tr");
    row.dataset.id = case_.id;
    const head = document.createElement("th");
    head.scope = "row";
    const link = document.createElement("a");
    link.className = "id";
    link.href = case_.link;
    link.title = link.textContent = Evigraph.plain(case_.id);
    head.append(link);
    row.append(head);
    const state_ = document.createElement("span");
    state_.className = "state " + case_.status;
    state_.textContent = case_.status;
    cell(row, "", "", case_.error).append(state_, case_.error ? " " + Evigraph.plain(case_.error) : "");
    cell(row, outcomes ? case_.outcome : case_.intent.replaceAll("_", " "));
    for (const name of ["sentences", "essential", "divided", "wrong", "votes"]) cell(row, case_[name], "n");
    cell(row, number.format(case_.tokens), "n");
    cell(row, case_.seconds === null ? "" : case_.seconds.toFixed(1) + " s", "n");
    const review = cell(row, "");
    if (case_.review) {
      const said = review.appendChild(document.createElement("span"));
      said.className = "state " + case_.review;
      said.textContent = case_.review;
    }
    cell(row, case_.flags.join(", ").replaceAll("_", " "), "", case_.flags.join(", "));
    return row;
  };
  const tell = () => {
    const pages = Math.max(1, Math.ceil(matches.length / PAGE));
    const all = `${number.format(rows.length)} ${rows.length === 1 ? "case" : "cases"}`;
    found.textContent = matches.length === rows.length ? all : `${number.format(matches.length)} of ${all}`;
    place.textContent = `page ${state.page + 1} of ${pages}`;
    for (const button of document.querySelectorAll("[data-page]"))
      button.disabled = button.dataset.page === "-1" ? state.page === 0 : state.page >= pages - 1;
    for (const button of table.querySelectorAll("[data-sort]")) {
      const head = button.parentElement, key = button.dataset.sort;
      if (state.sort.replace("-", "") === key) head.setAttribute("aria-sort", state.sort[0] === "-" ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  };
  const draw = () => {
    state.page = Math.min(state.page, Math.max(0, Math.ceil(matches.length / PAGE) - 1));
    body.replaceChildren(...matches.slice(state.page * PAGE, (state.page + 1) * PAGE).map((at) => drawRow(rows[at])));
    tell();
  };
  const find = () => {
    const wanted = Evigraph.wanted(state), order = Evigraph.order(state.sort);
    matches = [];
    rows.forEach((row, at) => wanted(row) && matches.push(at));
    matches.sort((one, other) => order(rows[one], rows[other]));
    draw();
  };

  // Choices of the filters are those that occur.
  const choose = (name, values, shown) => {
    const select = form.elements[name];
    for (const option of [...select.options].slice(1)) option.remove();
    for (const value of values) select.add(new Option(Evigraph.plain(shown ? shown(value) : value), value));
    if (state[name] && select.value !== state[name]) {
      if (!values.includes(state[name])) select.add(new Option(Evigraph.plain(state[name]), state[name]));
      select.value = state[name];
    }
  };
  const short = (route) => {
    const steps = [];
    for (const node of route.split(" > ")) {
      const last = steps.at(-1);
      if (last && last[0] === node) last[1] += 1;
      else steps.push([node, 1]);
    }
    return steps.map(([node, times]) => (times > 1 ? `${node} x${times}` : node)).join(" > ");
  };
  const offer = () => {
    const of = (values) => [...new Set(values)].filter(Boolean).sort();
    const routes = of(rows.map((row) => row.route));
    choose("status", of(rows.map((row) => row.status)));
    choose("error", of(rows.map((row) => row.error)));
    choose("intent", of(rows.map((row) => row.intent)), (intent) => intent.replaceAll("_", " "));
    choose("flag", of(rows.flatMap((row) => row.flags)), (flag) => flag.replaceAll("_", " "));
    const nodes = of(routes.flatMap((route) => route.split(" > ")));
    choose("through", nodes);
    choose("past", nodes);
    choose("route", routes, short);
  };
  const fill = () => {
    for (const name of fields) form.elements[name].value = state[name];
  };

  // Moving about.
  const current = () => body.querySelector("tr:focus-within");
  const goTo = (row) => {
    if (!row) return;
    row.querySelector("a").focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  };
  const move = (step) => {
    const at = current() || [...body.rows].find((row) => row.dataset.id === state.at);
    if (!at) goTo(body.rows[step > 0 ? 0 : body.rows.length - 1]);
    else goTo(current() ? (step > 0 ? at.nextElementSibling : at.previousElementSibling) : at);
  };
  const turn = (step) => {
    const last = Math.ceil(matches.length / PAGE) - 1, page = state.page + step;
    if (page < 0 || page > last) return;
    state.page = page;
    state.at = "";
    draw();
    writeAddress();
  };
  const comeBack = () => {
    const row = state.at && [...body.rows].find((one) => one.dataset.id === state.at);
    if (!row) return;
    row.querySelector("a").focus({ preventScroll: true });
    row.scrollIntoView({ block: "center" });
  };
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    const typing = event.target.matches("input, select, textarea");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      else if (event.key === "ArrowDown" && event.target.name === "q") goTo(body.rows[0]);
      else return;
      event.preventDefault();
      return;
    }
    const done = {
      j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
      n: () => turn(1), p: () => turn(-1),
      "/": () => { filtering.open = true; form.elements.q.focus(); form.elements.q.select(); },
      "?": () => keys.showModal(),
    }[event.key];
    // Arrows scroll the page as everywhere until a case is at hand.
    if (!done || (event.key.startsWith("Arrow") && !current())) return;
    event.preventDefault();
    done();
  };

  // Reviews come apart from the rows: they change while rows stay. Null where they have not changed.
  let reviews = {};
  const review = (given) => {
    if (!given) return;
    reviews = given;
    for (const row of rows) {
      const state_ = reviews[row.id] ?? "";
      if (row.review === state_) continue;
      row.review = state_;
      const drawn = [...body.rows].find((one) => one.dataset.id === row.id);
      if (drawn && !drawn.contains(document.activeElement)) drawn.replaceWith(drawRow(row));
      else if (drawn) drawn.cells[10].replaceWith(drawRow(row).cells[10]);
    }
    const next = document.getElementById("next-review");
    if (next) next.hidden = !Object.values(reviews).includes("waiting");
  };

  // What a run that goes on has added. Rows stay where they are; new ones stand at the end until the reader
  // sorts, filters or turns the page back to them.
  Evigraph.merge = (given) => {
    const fresh = Evigraph.unpack(given), wanted = Evigraph.wanted(state);
    const before = matches.length;
    for (const row of fresh) {
      row.review = reviews[row.id] ?? "";
      const at = places.get(row.id);
      if (at === undefined) {
        places.set(row.id, rows.push(row) - 1);
        if (wanted(row)) matches.push(rows.length - 1);
        continue;
      }
      rows[at] = row;
      const drawn = [...body.rows].find((one) => one.dataset.id === row.id);
      if (drawn && !drawn.contains(document.activeElement)) drawn.replaceWith(drawRow(row));
      if (!matches.includes(at) && wanted(row)) matches.push(at);
    }
    review(given.reviews);
    const room = (state.page + 1) * PAGE;
    const first = Math.max(before, state.page * PAGE);
    body.append(...matches.slice(first, Math.max(first, room)).map((at) => drawRow(rows[at])));
    tell();
    if (fresh.length) offer();
  };

  const begin = async () => {
    const given = await Evigraph.read(table, 0);
    rows = Evigraph.unpack(given);
    review(given.reviews);
    places = new Map(rows.map((row, at) => [row.id, at]));
    readAddress();
    offer();
    fill();
    find();
    comeBack();
    table.dataset.ready = "yes";
    return given;
  };
  const changed = () => {
    for (const name of fields) state[name] = form.elements[name].value;
    state.page = 0;
    state.at = "";
    find();
    writeAddress();
  };

  Evigraph.began = begin();
  Evigraph.began.then(() => {
    form.addEventListener("input", changed);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(changed));
    table.tHead.addEventListener("click", (event) => {
      const key = event.target.closest("[data-sort]")?.dataset.sort;
      if (!key) return;
      // Numbers are most of interest from the top.
      const first = ["position", "status", "intent", "outcome", "review", "flags"].includes(key) ? key : "-" + key;
      const turned = state.sort.startsWith("-") ? key : "-" + key;
      state.sort = state.sort.replace("-", "") === key ? turned : first;
      state.page = 0;
      find();
      writeAddress();
    });
    body.addEventListener("focusin", (event) => {
      state.at = event.target.closest("tr")?.dataset.id || "";
      writeAddress();
    });
    for (const button of document.querySelectorAll("[data-page]"))
      button.addEventListener("click", () => turn(Number(button.dataset.page)));
    document.getElementById("keys-button").addEventListener("click", () => keys.showModal());
    document.addEventListener("keydown", onKey);
    addEventListener("hashchange", () => { readAddress(); fill(); find(); comeBack(); });
  }, (error) => { found.textContent = "The rows could not be read: " + error.message; });
})();
