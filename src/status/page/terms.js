// What happened to leases: terms and hand-overs out of the events of their history. Pure.

import { short } from "./words.js";

/** Terms out of events (the newest first) and what is held now: who had what, from when to when. Times in ms. */
export function termsOf(events, leases, now) {
  const open = new Map();
  const terms = [];
  for (const event of [...events].reverse()) {
    const at = Date.parse(event.at);
    const key = `${event.name} ${event.epoch}`;
    if (event.what === "acquired") {
      const { name, incarnation } = event;
      const term = { name, incarnation, label: event.label ?? short(incarnation), from: at, to: null, ended: null };
      open.set(key, term);
      terms.push(term);
    } else if (open.has(key)) {
      Object.assign(open.get(key), { to: Math.min(at, now), ended: event.what });
      open.delete(key);
    }
  }
  // A term that began before what is told of the history.
  for (const { name, epoch, holder, since } of leases) {
    if (!holder || open.has(`${name} ${epoch}`)) continue;
    const { incarnation, label } = holder;
    terms.push({ name, incarnation, label, from: Date.parse(since), to: null, ended: null });
  }
  return terms;
}

/** The end of one term and the start of the next, the latest first. */
export function handoversOf(terms) {
  const latest = new Map();
  const found = [];
  for (const term of [...terms].sort((a, b) => a.from - b.from)) {
    const before = latest.get(term.name);
    if (before?.to) {
      found.push({ at: before.to, name: term.name, from: before, to: term, seconds: Math.max(0, term.from - before.to) / 1000 });
    }
    latest.set(term.name, term);
  }
  return found.sort((a, b) => b.at - a.at);
}

const REASONS = {
  released: ["good", "released"],
  left: ["good", "left"],
  "released after failures": ["warn", "gave up after failures"],
  expired: ["bad", "expired: no renewal"],
  "beacon gone": ["bad", "crashed: beacon gone"],
  "beacon lost": ["bad", "crashed: beacon lost"],
};

/** How a term ended: the mood and the words. */
export function ending(what) {
  return REASONS[what] ?? ["idle", what];
}
