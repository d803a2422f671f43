// The page: takes each state of things from the server, and puts it in the place of the last one. Nothing is kept here.

import { chart, timeline } from "./draw.js";
import { el } from "./elements.js";
import { backfill, holds, outbox } from "./parts.js";
import { handoversOf, termsOf } from "./terms.js";
import { duration, moment, short } from "./words.js";

const get = (id) => document.getElementById(id);

/** How far back the timeline goes on a narrow and on a wide page, in ms. */
const HOURS = 3_600_000;

/** Instances keep their color for as long as the page is open. */
const colors = new Map();
function colorOf(incarnation) {
  if (!colors.has(incarnation)) colors.set(incarnation, `i${colors.size % 8}`);
  return colors.get(incarnation);
}

function named(incarnation, label) {
  return el("span", {}, el("span", { class: `dot ${colorOf(incarnation)}`, "aria-hidden": "true" }), `${label} `, el("span", { class: "soft" }, short(incarnation)));
}

function fill(table, rows, empty, columns) {
  const body = get(table).tBodies[0];
  const shown = rows.length ? rows : [el("tr", {}, el("td", { colspan: columns, class: "soft" }, empty))];
  body.replaceChildren(...shown);
}

const GOOD = { running: "good", waiting: "warn", starting: "warn", stopping: "warn", free: "warn", cooling: "bad", paused: "warn" };

let holders = new Map();

function leaseRows(leases) {
  const before = holders;
  holders = new Map(leases.map((lease) => [lease.name, lease.epoch]));
  return leases.map((lease) =>
    el(
      "tr",
      { class: before.size && before.get(lease.name) !== lease.epoch ? "fresh" : undefined },
      el("th", { scope: "row" }, lease.name),
      el("td", { class: GOOD[lease.state] ?? "" }, lease.paused ? "paused" : lease.state),
      el("td", {}, lease.holder ? named(lease.holder.incarnation, lease.holder.label) : "nobody"),
      el("td", {}, moment(lease.since)),
      el("td", { class: "n" }, String(lease.epoch)),
    ),
  );
}

function instanceRows(report, here) {
  return report.instances.map((instance) => {
    const address = instance.admin_address;
    const own = instance.incarnation === here;
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, named(instance.incarnation, instance.label)),
      el("td", { class: instance.state === "up" ? "good" : "warn" }, instance.state),
      el("td", {}, `${instance.host}, ${instance.pid}`),
      el("td", {}, own ? "this one" : address ? el("a", { href: `http://${address}/` }, address) : "none"),
      el("td", { class: "n" }, `${duration(instance.renewed_seconds_ago)} ago`),
    );
  });
}

function handoverRows(handovers) {
  return handovers.slice(0, 50).map((handover) =>
    el(
      "tr",
      {},
      el("td", {}, moment(new Date(handover.at).toISOString())),
      el("th", { scope: "row" }, handover.name),
      el("td", {}, named(handover.from.incarnation, handover.from.label)),
      el("td", {}, handover.from.ended),
      el("td", {}, named(handover.to.incarnation, handover.to.label)),
      el("td", { class: "n" }, handover.seconds < 1 ? `${Math.round(handover.seconds * 1000)} ms` : duration(handover.seconds)),
    ),
  );
}

function legend(terms, instances) {
  const known = new Map(terms.map((term) => [term.incarnation, term.label]));
  for (const instance of instances) known.set(instance.incarnation, instance.label);
  return [...known].map(([incarnation, label]) => el("li", {}, named(incarnation, label)));
}

function streams(state, now, width) {
  const { streams } = state.report;
  if (!streams.length) return [el("p", { class: "empty" }, "No stream is in the index yet.")];
  return streams.map((stream) => {
    const key = `${stream.wire} ${stream.host}`;
    const points = state.lag.streams[key] ?? [];
    const say = (seconds) => duration(seconds);
    return el(
      "div",
      { class: "stream" },
      el("div", {}, el("strong", {}, stream.host), ` (${stream.wire}) in the index up to ${moment(stream.position)}, ${duration(stream.position_seconds_ago)} ago`),
      points.length > 1 ? chart(`Seconds behind, ${stream.host}`, points, now - 3 * HOURS, now, width, say) : el("p", { class: "soft" }, "The curve of its lag begins in a moment."),
    );
  });
}

/** One sentence on top: is all well, and if not, what is wrong. */
export function verdict(report) {
  const idle = report.leases.filter((lease) => !lease.holder && !lease.paused).map((lease) => lease.name);
  const paused = report.leases.filter((lease) => lease.paused).map((lease) => lease.name);
  if (!report.leases.length) return ["warn", "No worker has a lease yet."];
  if (idle.length) return ["bad", `Nobody runs ${idle.join(", ")}.`];
  if (paused.length) return ["warn", `Paused: ${paused.join(", ")}. Everything else runs.`];
  const many = report.instances.length;
  return ["good", `Every worker runs, on ${many} ${many === 1 ? "instance" : "instances"}.`];
}

export function show(state) {
  const { report } = state;
  const now = Date.parse(state.at);
  const width = Math.max(280, get("timeline").clientWidth);
  get("where").textContent = `${state.label}, version ${state.version}, ${state.database}`;
  const [mood, text] = verdict(report);
  if (get("verdict").textContent !== text) get("verdict").textContent = text;
  get("verdict").dataset.is = mood;
  fill("leases", leaseRows(report.leases), "no leases yet", 5);
  fill("instances", instanceRows(report, state.incarnation), "leases are off: no instance registers", 5);
  const terms = termsOf(state.events, now);
  get("timeline").replaceChildren(timeline(report.leases.map((lease) => lease.name), terms, colorOf, now - (width < 500 ? 1 : 3) * HOURS, now, width));
  get("legend").replaceChildren(...legend(terms, report.instances));
  fill("handovers", handoverRows(handoversOf(terms)), "none yet", 6);
  get("streams").replaceChildren(...streams(state, now, width));
  get("backfill").replaceChildren(...backfill(report.backfill));
  get("outbox").replaceChildren(...outbox(report.outbox));
  get("holds").replaceChildren(...holds(report.holds));
}

function live(is, text) {
  const line = get("live");
  line.dataset.is = is;
  if (line.textContent !== text) line.textContent = text;
}

function follow() {
  const source = new EventSource("events");
  source.addEventListener("state", (event) => {
    live("live", "live");
    show(JSON.parse(event.data));
  });
  source.addEventListener("away", (event) => live("gone", `the database does not answer: ${event.data}`));
  source.addEventListener("error", () => {
    live("gone", "not connected to this instance; trying again");
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 2_000);
  });
}

follow();
