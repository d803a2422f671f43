// Elements made from data. Text from the network is always text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function made(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value);
  }
  const shown = children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);
  element.append(...shown);
  return element;
}

/** An element of the page with attributes and children; what is null, undefined or false is left out. */
export function el(name, attributes = {}, ...children) {
  return made(document.createElement(name), attributes, children);
}

/** An SVG element with attributes and children. */
export function node(name, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, name), attributes, children);
}

/** A state in a word, with a mark whose shape tells the mood, too: good, warn, bad or idle. */
export function state(mood, ...text) {
  return el("span", { class: `state ${mood}` }, el("span", { class: "mark", "aria-hidden": "true" }), ...text);
}

/** Text that only those hear who do not see. */
export function unseen(text) {
  return el("span", { class: "unseen" }, text);
}

/** Pairs of a name and a value; those without a value are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", {}, ...shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

export function empty(text) {
  return el("p", { class: "empty" }, text);
}
