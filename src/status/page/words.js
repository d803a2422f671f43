// Numbers and times as people read them.

/** Seconds as one or two units: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min, 4 d 3 h. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  const units = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
  const at = units.findIndex(([, size]) => whole >= size);
  const [unit, size] = units[at];
  const rest = Math.floor((whole % size) / (units[at + 1]?.[1] ?? 1));
  return `${Math.floor(whole / size)} ${unit}${rest && units[at + 1] ? ` ${rest} ${units[at + 1][0]}` : ""}`;
}

export function count(number) {
  return number === null || number === undefined ? "unknown" : number.toLocaleString("en");
}

/** A time of day, with the date where it is not today's. */
export function moment(iso) {
  if (!iso) return "–";
  const at = new Date(iso);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
}

export function short(incarnation) {
  return incarnation.slice(0, 6);
}
