// Drawings as SVG elements: the timeline of leases, and small charts. Pure: data in, element out.

import { node } from "./elements.js";

/** A round number of minutes between two marks of time, for about `count` of them. */
function stepMinutes(minutes, count) {
  return [1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440].find((step) => minutes / step <= count) ?? 1440;
}

function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** Marks of time over a width, as lines and texts. */
function timeAxis(from, to, left, right, bottom) {
  const step = stepMinutes((to - from) / 60_000, Math.max(2, Math.floor((right - left) / 70))) * 60_000;
  const marks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const x = left + ((at - from) / (to - from)) * (right - left);
    marks.push(node("line", { class: "rule", x1: x, x2: x, y1: 0, y2: bottom }));
    if (x < right - 30) marks.push(node("text", { x: x + 3, y: bottom + 13 }, clock(at)));
  }
  return marks;
}

/**
 * A row per lease, a bar per term, colored by instance.
 * terms: [{name, incarnation, label, from, to, ended}], times in ms, `to` null while it lasts.
 */
export function timeline(names, terms, colorOf, from, to, width) {
  const left = Math.min(110, width * 0.3);
  const rowHeight = 26;
  const bottom = names.length * rowHeight;
  const x = (at) => left + ((Math.max(from, Math.min(to, at)) - from) / (to - from)) * (width - left);
  const svg = node("svg", { viewBox: `0 0 ${width} ${bottom + 18}`, role: "img" });
  const running = names.map((name) => {
    const last = terms.filter((term) => term.name === name && term.to === null).at(-1);
    return `${name}: ${last ? last.label : "nobody"}`;
  });
  svg.append(node("title", {}, `Who had each lease from ${clock(from)} to ${clock(to)}. Now ${running.join("; ")}`));
  svg.append(...timeAxis(from, to, left, width, bottom));
  names.forEach((name, row) => {
    const y = row * rowHeight;
    svg.append(node("text", { class: "name", x: 0, y: y + 17 }, name));
    svg.append(node("line", { class: "rule", x1: 0, x2: width, y1: y + rowHeight, y2: y + rowHeight }));
    for (const term of terms.filter((term) => term.name === name && (term.to ?? to) >= from)) {
      const start = x(term.from);
      const end = x(term.to ?? to);
      const until = term.to === null ? "now" : `${clock(term.to)}, ${term.ended}`;
      svg.append(
        node(
          "rect",
          { class: `term ${colorOf(term.incarnation)}`, x: start, y: y + 5, width: Math.max(1.5, end - start - 1), height: rowHeight - 10, rx: 2 },
          node("title", {}, `${name} on ${term.label}, ${clock(term.from)} to ${until}`),
        ),
      );
    }
  });
  return svg;
}

/** A curve of [[ms, value or null]], from zero up; gaps where there is no value. */
export function chart(title, points, from, to, width, say) {
  const [height, left] = [56, 46];
  const values = points.map(([, value]) => value).filter((value) => value !== null);
  const top = Math.max(1, ...values);
  const x = (at) => left + ((at - from) / (to - from)) * (width - left);
  const y = (value) => 4 + (1 - value / top) * (height - 4);
  const svg = node("svg", { viewBox: `0 0 ${width} ${height + 18}`, role: "img" });
  const latest = points.at(-1)?.[1] ?? null;
  svg.append(node("title", {}, `${title}: ${latest === null ? "unknown" : say(latest)} now, at most ${say(Math.max(0, ...values))}`));
  svg.append(...timeAxis(from, to, left, width, height));
  svg.append(node("text", { x: 0, y: 13 }, say(top)), node("text", { x: 0, y: height }, say(0)));
  svg.append(node("line", { class: "rule", x1: left, x2: width, y1: height, y2: height }));
  for (const run of runs(points, from)) {
    const line = run.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
    const [first, last] = [x(run[0][0]).toFixed(1), x(run.at(-1)[0]).toFixed(1)];
    svg.append(node("polygon", { class: "area", points: `${first},${height} ${line.join(" ")} ${last},${height}` }));
    svg.append(node("polyline", { class: "curve", points: line.join(" ") }));
  }
  return svg;
}

/** What lies between gaps. */
function runs(points, from) {
  const found = [];
  let open = null;
  for (const point of points) {
    if (point[1] === null || point[0] < from) {
      open = null;
    } else if (open) {
      open.push(point);
    } else {
      found.push((open = [point]));
    }
  }
  return found;
}
