// A small curve over time. Pure: data in, element out.

import { marks, scale } from "./axis.js";
import { node } from "./elements.js";

const HEIGHT = 56;
const LEFT = 52;

/** Round values that a scale may end at, in seconds. */
const TOPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400];

/** A curve of [[ms, value]], from zero up; `say` makes words of a value. A gap is where two points lie far apart. */
export function chart(title, points, { from, to }, gap, width, say) {
  const shown = points.filter(([at]) => at >= from && at <= to);
  const most = Math.max(0, ...shown.map(([, value]) => value));
  const top = TOPS.find((top) => most <= top) ?? Math.ceil(most / 86_400) * 86_400;
  const span = { from, to, left: LEFT, right: width };
  const x = scale(span);
  const y = (value) => 5 + (1 - value / top) * (HEIGHT - 5);
  const svg = node("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT + 20}`, width, height: HEIGHT + 20, role: "img" });
  const latest = shown.at(-1)?.[1];
  svg.append(
    node("title", {}, `${title}: ${latest === undefined ? "unknown" : say(latest)} now, at most ${say(most)}`),
    ...marks(span, HEIGHT),
    node("text", { x: LEFT - 6, y: 12, "text-anchor": "end" }, say(top)),
    node("text", { x: LEFT - 6, y: HEIGHT, "text-anchor": "end" }, say(0)),
    node("line", { class: "rule", x1: LEFT, x2: width, y1: HEIGHT, y2: HEIGHT }),
  );
  for (const run of runs(shown, gap)) {
    const line = run.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
    const [first, last] = [x(run[0][0]).toFixed(1), x(run.at(-1)[0]).toFixed(1)];
    svg.append(
      node("polygon", { class: "area", points: `${first},${HEIGHT} ${line.join(" ")} ${last},${HEIGHT}` }),
      node("polyline", { class: "curve", points: line.join(" ") }),
    );
  }
  return svg;
}

/** What lies between gaps. */
function runs(points, gap) {
  const found = [];
  for (const point of points) {
    const open = found.at(-1);
    if (open && point[0] - open.at(-1)[0] <= gap) open.push(point);
    else found.push([point]);
  }
  return found;
}
