// The streams: up to where the index has each of them, how late that came, and how long ago.

import { chart } from "./chart.js";
import { el, empty, state } from "./elements.js";
import { age, ago, duration } from "./words.js";

/** Beyond, an index that is behind is told of on top of the page. A host turned to after silence takes half of it. */
export const BEHIND_SECONDS = 60;

/** Whether somebody follows a stream now: the one that moved last, while somebody runs the worker. */
export function followed(report) {
  const lease = report.leases.find((lease) => lease.name === "jetstream");
  return lease?.holder ? report.streams[0] : undefined;
}

/** How late what came last was in the index, and how long ago that was; in seconds. */
function lateness(position, saved) {
  return [Math.max(0, position - saved), saved];
}

/** `from`: how far back the curves go, in ms. */
export function streams(report, lag, now, from, width) {
  const [latest, ...others] = report.streams;
  if (!latest) return [empty("No stream is in the index yet.")];
  return [one(report, latest, lag, now, from, width), ...earlier(others, now)];
}

function one(report, stream, lag, now, from, width) {
  const isFollowed = followed(report) === stream;
  const isLate = stream.position_seconds_ago > BEHIND_SECONDS;
  const [mood, word] = !isFollowed ? ["bad", "nobody follows it"] : isLate ? ["warn", "behind"] : ["good", "up to date"];
  const points = (lag?.streams[`${stream.wire} ${stream.host}`] ?? []).filter((point) => point.length > 2);
  const all = [...points, [now, stream.position_seconds_ago, stream.saved_seconds_ago]];
  const of = (which) => all.map(([at, position, saved]) => [at, lateness(position, saved)[which]]);
  const gap = (lag?.every_seconds ?? 30) * 3_500;
  const each = width > 720 ? Math.floor((width - 32) / 2) : width;
  const drawn = [
    ["Lag", "from the event to the index", 0, duration],
    ["Freshness", "since the index was last written", 1, age],
  ].map(([title, about, which, say]) =>
    el(
      "figure",
      {},
      el("figcaption", {}, el("strong", {}, title), ` ${about} `, el("span", { class: "now" }, say(all.at(-1) && of(which).at(-1)[1]))),
      chart(`${title}, ${stream.host}`, of(which), { from, to: now }, gap, each, duration),
    ),
  );
  return el(
    "div",
    { "data-key": "latest" },
    el(
      "p",
      { class: "line" },
      state(mood, word),
      el("strong", {}, stream.host),
      el("span", { class: "soft" }, `wire ${stream.wire}${stream.seq === null ? "" : `, event ${stream.seq}`}`),
      el("span", {}, "in the index up to ", ago(stream.position, now)),
    ),
    el("div", { class: "charts" }, drawn),
  );
}

/** Hosts that were turned away from, or other instances' of another setting. */
function earlier(others, now) {
  const line = (stream) =>
    el("li", {}, el("strong", {}, stream.host), ` wire ${stream.wire}, in the index up to `, ago(stream.position, now));
  return others.length ? [el("div", { "data-key": "others" }, el("h3", {}, "Not followed now"), el("ul", { class: "plain" }, others.map(line)))] : [];
}
