// The axis of time that drawings have. Pure.

import { node } from "./elements.js";
import { clock } from "./words.js";

const STEPS_MINUTES = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440];

/** A place on the axis for a time, which is kept within it. */
export function scale({ from, to, left, right }) {
  return (at) => left + ((Math.max(from, Math.min(to, at)) - from) / (to - from)) * (right - left);
}

/** Marks of time, as lines from the top to `bottom` and texts below; round ones, by the clock of the reader. */
export function marks(span, bottom) {
  const { from, to, left, right } = span;
  const room = Math.max(2, Math.floor((right - left) / 64));
  const minutes = (to - from) / 60_000;
  const step = (STEPS_MINUTES.find((step) => minutes / step <= room) ?? 1440) * 60_000;
  const offset = new Date(to).getTimezoneOffset() * 60_000;
  const x = scale(span);
  const found = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) {
    found.push(node("line", { class: "rule", x1: x(at), x2: x(at), y1: 0, y2: bottom }));
    const fits = x(at) > left + 16 && x(at) < right - 16;
    if (fits) found.push(node("text", { x: x(at), y: bottom + 14, "text-anchor": "middle" }, clock(at)));
  }
  return found;
}
