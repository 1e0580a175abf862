"use strict";
// The rows of the table of cases: fetched, or left behind by a script where the page is a file on disk.
var Evigraph = globalThis.Evigraph || {};
(() => {
  // Control and bidirectional characters do not belong in a page's text.
  const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
  Evigraph.plain = (text) => String(text).replace(unsafe, "\ufffd");

  // All rows, or with a version those that are newer; reviews are left out where theirs is known.
  Evigraph.read = async (table, version, reviews) => {
    if (globalThis.evigraphRows) return globalThis.evigraphRows;
    const address = table.dataset.rows + (version ? "?since=" + version + "&reviews=" + reviews : "");
    const answer = await fetch(address, { credentials: "same-origin" });
    if (!answer.ok) throw new Error("status " + answer.status);
    return answer.json();
  };

  // A list of objects; what repeats is shared, so 10,000 rows stay small.
  Evigraph.unpack = (given) => {
    const { names, columns } = given;
    const routes = names.route.map((places) => places.map((place) => names.node[place]).join(" > "));
    return columns.id.map((id, at) => {
      const flags = columns.flags[at].map((place) => names.flag[place]);
      const status = names.status[columns.status[at]];
      const error = columns.error[at] < 0 ? "" : names.error[columns.error[at]];
      const intent = columns.intent[at] < 0 ? "" : names.intent[columns.intent[at]];
      return {
        id, status, error, intent, flags,
        position: columns.position[at],
        route: columns.route[at] < 0 ? "" : routes[columns.route[at]],
        sentences: columns.sentences[at], essential: columns.essential[at], divided: columns.divided[at],
        wrong: columns.wrong[at], votes: columns.votes[at], calls: columns.calls[at],
        review: "", outcome: columns.outcome[at] ?? "", tokens: columns.tokens[at], seconds: columns.seconds[at],
        link: given.links ? given.links[at] : given.link + encodeURIComponent(id),
        text: [id, columns.outcome[at] ?? "", intent, intent.replaceAll("_", " "), status, error, flags.join(" "), flags.join(" ").replaceAll("_", " ")].join("\n").toLowerCase(),
      };
    });
  };
})();
