// Instances keep their color for as long as the page is open.

import { el } from "./elements.js";
import { short } from "./words.js";

/** As many as page.css has. */
const COLORS = 8;
const colors = new Map();

export function colorOf(incarnation) {
  if (!colors.has(incarnation)) colors.set(incarnation, `i${colors.size % COLORS}`);
  return colors.get(incarnation);
}

/** An instance as it is named everywhere: its color, its label, the beginning of its incarnation. */
export function named(incarnation, label) {
  return el(
    "span",
    { class: "who", title: incarnation },
    el("span", { class: `dot ${colorOf(incarnation)}`, "aria-hidden": "true" }),
    el("span", { class: "label" }, label),
    " ",
    el("span", { class: "soft id" }, short(incarnation)),
  );
}
