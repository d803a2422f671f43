// Numbers and times as people read them: one way for each, everywhere on the page.

import { el } from "./elements.js";

const UNITS = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];

/** Seconds as one or two units: 40 ms, 1.4 s, 12 s, 3 min 5 s, 2 h 10 min, 4 d 3 h. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds === 0) return "0 s";
  if (seconds < 0.995) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const at = UNITS.findIndex(([, size]) => whole >= size);
  const [unit, size] = UNITS[at];
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((whole % size) / next[1]) : 0;
  return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${next[0]}` : ""}`;
}

/** An age in whole units, since it changes while one reads it: 0 s, 45 s, 3 min, 2 h, 4 d. */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  const whole = Math.max(0, Math.floor(seconds));
  const [unit, size] = UNITS.find(([, size]) => whole >= size) ?? ["s", 1];
  return `${Math.floor(whole / size)} ${unit}`;
}

export function count(number) {
  return number === null || number === undefined ? "unknown" : number.toLocaleString("en");
}

/** 1 webhook, 2 webhooks. */
export function many(number, one, more = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : more}`;
}

const two = (number) => String(number).padStart(2, "0");

/** The time of day in hours and minutes, here. */
export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** The time of day with seconds, and the date where it is not today's. */
export function moment(ms) {
  const at = new Date(ms);
  const time = `${clock(ms)}:${two(at.getSeconds())}`;
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en", { day: "numeric", month: "short" })} ${time}`;
}

/** How long ago something was; when it was stands in the title. */
export function ago(iso, now) {
  if (!iso) return "–";
  const ms = Date.parse(iso);
  return el("time", { datetime: iso, title: `${moment(ms)} here, ${iso}` }, `${age((now - ms) / 1000)} ago`);
}

/** When something was; how long ago stands in the title. */
export function when(ms, now) {
  const iso = new Date(ms).toISOString();
  return el("time", { datetime: iso, title: `${age((now - ms) / 1000)} ago, ${iso}` }, moment(ms));
}

export function short(incarnation) {
  return incarnation.slice(0, 6);
}
