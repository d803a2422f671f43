// The drawing of who had each lease: a row per lease, a bar per term. Pure: data in, element out.

import { marks, scale } from "./axis.js";
import { node } from "./elements.js";
import { ending } from "./terms.js";
import { age, clock, moment } from "./words.js";

/** Below this the names stand above the bars, not beside them. */
const NARROW = 560;
const BAR = 18;
/** A letter of a bar's text, at most. */
const LETTER = 7;

/** `terms` as of `termsOf`; `span` of times in ms. */
export function timeline(names, terms, colorOf, { from, to }, width) {
  const isNarrow = width < NARROW;
  const left = isNarrow ? 0 : Math.min(160, Math.max(...names.map((name) => name.length)) * LETTER + 16);
  const rowHeight = isNarrow ? BAR + 22 : BAR + 10;
  const bottom = names.length * rowHeight;
  const span = { from, to, left, right: width };
  const x = scale(span);
  const svg = node("svg", { class: "timeline", viewBox: `0 0 ${width} ${bottom + 20}`, width, height: bottom + 20, role: "img" });
  svg.append(node("title", {}, told(names, terms, from, to)), ...marks(span, bottom));
  names.forEach((name, row) => {
    const top = row * rowHeight;
    svg.append(node("text", { class: "name", x: 0, y: top + (isNarrow ? 13 : 5 + BAR - 5) }, name));
    svg.append(node("line", { class: "rule", x1: 0, x2: width, y1: top + rowHeight, y2: top + rowHeight }));
    const y = top + (isNarrow ? 18 : 5);
    const shown = terms.filter((term) => term.name === name && (term.to ?? to) >= from);
    svg.append(...shown.map((term) => bar(term, x, to, y, colorOf)));
  });
  return svg;
}

function bar(term, x, to, y, colorOf) {
  const [start, end] = [x(term.from), x(term.to ?? to)];
  const [mood, how] = term.to ? ending(term.ended) : ["good", ""];
  const until = term.to ? `${moment(term.to)}, ${how}` : "now";
  const about = `${term.name} on ${term.label}, ${moment(term.from)} to ${until} (${age(((term.to ?? to) - term.from) / 1000)})`;
  const wide = Math.max(2, end - start - 1);
  const fits = wide > term.label.length * LETTER + 10;
  return node(
    "g",
    { class: colorOf(term.incarnation) },
    node("title", {}, about),
    node("rect", { class: "term", x: start, y, width: wide, height: BAR, rx: 3 }),
    fits && node("text", { class: "on-term", x: start + 6, y: y + BAR - 5 }, term.label),
    mood === "bad" && ["halo", "broken"].map((kind) => node("path", { class: kind, d: `M${end - 5} ${y - 3}l8 8m0-8l-8 8M${end - 1} ${y + 1}v${BAR}` })),
  );
}

/** The same in a sentence, for those who do not see it. */
function told(names, terms, from, to) {
  const running = names.map((name) => {
    const last = terms.filter((term) => term.name === name && term.to === null).at(-1);
    return `${name}: ${last ? last.label : "nobody"}`;
  });
  return `Who had each lease from ${clock(from)} to ${clock(to)}. Now ${running.join(", ") || "there are none"}.`;
}
