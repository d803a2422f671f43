// The page: takes each state of things from the instance, and draws it in the place of the last one.

import { isSignedIn, listen, offer } from "./actions.js";
import { colorOf, named } from "./colors.js";
import { el } from "./elements.js";
import { follow } from "./live.js";
import { put } from "./morph.js";
import { backfill, holds, labels, outbox } from "./parts.js";
import { streams } from "./streams.js";
import { handovers, instances, leases } from "./tables.js";
import { handoversOf, termsOf } from "./terms.js";
import { timeline } from "./timeline.js";
import { verdict } from "./verdict.js";

const get = (id) => document.getElementById(id);
const HOUR = 3_600_000;
/** As far back as the instance keeps the streams' curves. */
const CURVE_HOURS = 3;
/** The drawing moves on in steps: a bar that grows by a hair each half second is work for nothing. */
const STEP = 5_000;

let state = null;
let events = [];
let lag = null;
/** How long a lease is marked that has just moved. */
const FRESH = 2_500;
/** By lease: the epoch that was shown last, and when it came. */
const epochs = new Map();

function freshly(leases) {
  const now = Date.now();
  for (const { name, epoch } of leases) {
    const known = epochs.get(name);
    if (known?.epoch !== epoch) epochs.set(name, { epoch, at: known ? now : 0 });
  }
  return new Set([...epochs].filter(([, { at }]) => now - at < FRESH).map(([name]) => name));
}

function sayVerdict(report) {
  const [mood, text, attention] = verdict(report);
  get("verdict").dataset.is = mood;
  put(get("verdict"), el("p", {}, el("span", { class: "mark", "aria-hidden": "true" }), text), attention.length > 0 && el("ul", {}, attention.map(([mood, note]) => el("li", { class: `state ${mood}` }, el("span", { class: "mark", "aria-hidden": "true" }), note))));
  document.title = `${{ good: "", idle: "", warn: "(!) ", bad: "(!!) " }[mood]}${state.label}: atcr-workers`;
}

function legend(terms, instances) {
  const known = new Map(terms.map((term) => [term.incarnation, term.label]));
  for (const instance of instances) known.set(instance.incarnation, instance.label);
  return [...known].map(([incarnation, label]) => el("li", { "data-key": incarnation }, named(incarnation, label)));
}

/** At first as far back as something is known, in one of the choices, up to three hours; from then on it is the reader's. */
let isChosen = false;
function choose(terms, now) {
  if (isChosen || !terms.length) return;
  isChosen = true;
  const hours = (now - Math.min(...terms.map((term) => term.from))) / HOUR;
  const fitting = [...document.querySelectorAll("[name=hours]")].find(({ value }) => Number(value) >= Math.min(hours, CURVE_HOURS));
  fitting.checked = true;
}

function draw() {
  if (state === null || document.hidden) return;
  const { report } = state;
  const now = Date.parse(state.at);
  const canAct = state.actions && isSignedIn();
  document.body.classList.toggle("acting", canAct);
  put(get("where"), el("strong", {}, state.label), ` version ${state.version}, on ${state.database}`);
  sayVerdict(report);
  offer(state);
  put(get("leases-box"), leases(state, now, freshly(report.leases), canAct));
  put(get("instances-box"), instances(state, now, canAct));
  const terms = termsOf(events, report.leases, now);
  choose(terms, now);
  const hours = Number(document.querySelector("[name=hours]:checked").value);
  const to = Math.ceil(now / STEP) * STEP;
  const from = to - hours * HOUR;
  const names = report.leases.map((lease) => lease.name);
  const width = get("timeline").clientWidth;
  put(get("timeline"), names.length ? timeline(names, terms, colorOf, { from, to }, width) : el("p", { class: "empty" }, "Nothing to draw yet."));
  put(get("legend"), legend(terms.filter((term) => (term.to ?? to) >= from), report.instances));
  put(get("handovers-box"), handovers(handoversOf(terms), now));
  put(get("streams-box"), streams(report, lag, now, now - Math.min(hours, CURVE_HOURS) * HOUR, get("streams-box").clientWidth));
  put(get("backfill-box"), backfill(report.backfill, now), canAct && el("p", {}, el("button", { type: "button", class: "small", "data-do": "backfill" }, "Read every repository again")));
  put(get("outbox-box"), outbox(report.outbox));
  put(get("labels-box"), labels(report.labels, now));
  put(get("holds-box"), holds(report.holds, now));
  document.body.dataset.drawn = state.at;
}

listen(draw);
document.addEventListener("visibilitychange", draw);
addEventListener("resize", draw);
for (const choice of document.querySelectorAll("[name=hours]")) choice.addEventListener("change", draw);
follow({
  history: (told) => ({ events } = told),
  curves: (told) => ({ lag } = told),
  state: (told) => {
    // The instance has come back as another version, whose page is another one.
    if (state !== null && state.version !== told.version) location.reload();
    state = told;
    draw();
  },
});
