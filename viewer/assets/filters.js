"use strict";
// Which rows are wanted, and in which order. Nothing here touches the page.
var Evigraph = globalThis.Evigraph || {};
(() => {
  const least = (text) => (text === "" || Number.isNaN(Number(text)) ? null : Number(text));

  // A function that says whether a row is wanted.
  Evigraph.wanted = (state) => {
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const divided = least(state.divided), wrong = least(state.wrong);
    const through = (row, node) => (" > " + row.route + " > ").includes(" > " + node + " > ");
    return (row) =>
      (!state.status || row.status === state.status) &&
      (!state.error || row.error === state.error) &&
      (!state.intent || row.intent === state.intent) &&
      (!state.review || (row.review || "none") === state.review) &&
      (!state.flag || row.flags.includes(state.flag)) &&
      (divided === null || row.divided >= divided) &&
      (wrong === null || (row.wrong !== null && row.wrong >= wrong)) &&
      (!state.through || through(row, state.through)) &&
      (!state.past || !through(row, state.past)) &&
      (!state.route || row.route === state.route) &&
      words.every((word) => row.text.includes(word));
  };

  // A comparison of rows by a column, `-` in front of it for downwards; what is missing comes last.
  Evigraph.order = (sort) => {
    const sign = sort.startsWith("-") ? -1 : 1, key = sort.replace("-", "");
    const value = (row) => (key === "flags" ? row.flags.join() : key === "status" ? row.status + row.error : row[key]);
    return (one, other) => {
      const a = value(one), b = value(other);
      const missing = (a === null || a === "") - (b === null || b === "");
      return missing || sign * (a < b ? -1 : a > b ? 1 : 0) || one.position - other.position;
    };
  };
})();
