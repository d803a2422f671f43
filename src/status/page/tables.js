// The tables: leases, instances, hand-overs. On a narrow page each row becomes a small block; the roles keep it a table for
// those who hear it.

import { el, empty, state, unseen } from "./elements.js";
import { named } from "./colors.js";
import { ending } from "./terms.js";
import { age, ago, duration, many, when } from "./words.js";

/** Hand-overs that stand under the timeline at once; the rest unfolds. */
const LATEST = 5;
const HANDOVERS_MAX = 100;

const MOODS = { running: "good", waiting: "warn", stopping: "warn", free: "bad", cooling: "bad", paused: "idle" };

/** Columns are [class, heading], rows are [key, class, cells]; a cell is what is in it. The first names the row. */
function table(id, name, columns, rows) {
  const heads = columns.map(([kind, text]) => el("th", { scope: "col", role: "columnheader", class: kind }, text));
  const line = ([key, kind, cells]) =>
    el(
      "tr",
      { role: "row", class: kind, "data-key": key },
      cells.map((cell, at) =>
        at === 0
          ? el("th", { scope: "row", role: "rowheader", class: columns[at][0] }, cell)
          : el("td", { role: "cell", class: columns[at][0], "data-name": columns[at][1] }, cell),
      ),
    );
  return el(
    "table",
    { id, role: "table", "aria-label": name },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads)),
    el("tbody", { role: "rowgroup" }, rows.map(line)),
  );
}

function button(does, text, about, more) {
  return el("button", { type: "button", class: "small", "data-do": does, ...more }, text, unseen(` ${about}`));
}

/** `fresh`: names of leases whose holder has just changed. `here`: what this instance says of its own. */
export function leases(state_, now, fresh, canAct) {
  const { leases, instances } = state_.report;
  if (!leases.length) return [empty("No lease yet: no instance has run on this database.")];
  const row = (lease) => {
    const { name, holder } = lease;
    const failure = state_.here.find((here) => here.name === name)?.last_failure;
    const wanted = instances.find((instance) => instance.incarnation === lease.desired);
    const who = holder ? named(holder.incarnation, holder.label) : el("span", { class: "soft" }, "nobody");
    const notes = [
      wanted && wanted.incarnation !== holder?.incarnation && el("div", { class: "note" }, `is to move to ${wanted.label}`),
      failure && el("div", { class: "note" }, `failed here: ${failure}`),
    ];
    const act = lease.paused
      ? button("resume", "Resume", name, { "data-lease": name })
      : [button("move", "Move", name, { "data-lease": name }), button("pause", "Pause", name, { "data-lease": name })];
    const shown = lease.paused ? "paused" : lease.state;
    return [
      name,
      fresh.has(name) ? "fresh" : undefined,
      [name, state(MOODS[shown] ?? "idle", shown), [who, notes], ago(lease.since, now), String(lease.epoch), ...(canAct ? [act] : [])],
    ];
  };
  const columns = [["key", "Worker"], ["", "State"], ["wide", "Runs on"], ["n since", "Since"], ["n epoch", "Epoch"], ["acts", "Actions"]];
  return [table("leases", "Leases", canAct ? columns : columns.slice(0, 5), leases.map(row))];
}

export function instances(state_, now, canAct) {
  const { instances } = state_.report;
  if (!instances.length) return [empty("None is registered. Where leases are off (leases.enabled), none ever is.")];
  const row = (instance) => {
    const { incarnation, label, admin_address: address } = instance;
    const isHere = incarnation === state_.incarnation;
    const name = named(incarnation, label);
    const shown = address && !isHere ? el("a", { href: `http://${address}/`, title: `its page at ${address}` }, name) : name;
    const act = instance.state === "draining" ? ["undrain", "Undrain"] : ["drain", "Drain"];
    return [
      incarnation,
      undefined,
      [
        [shown, isHere && el("span", { class: "soft here" }, " this page")],
        state(instance.state === "up" ? "good" : "idle", instance.state),
        `${instance.host}, ${instance.pid}`,
        el("span", { title: `registered ${instance.since ?? "long"} (${age((now - Date.parse(instance.since)) / 1000)} ago)` }, `${age(instance.renewed_seconds_ago)} ago`),
        ...(canAct ? [button(...act, label, { "data-instance": incarnation, "data-label": label })] : []),
      ],
    ];
  };
  const columns = [["key", "Instance"], ["", "State"], ["wide", "Host, process"], ["n named", "Renewed"], ["acts", "Actions"]];
  return [table("instances", "Instances", canAct ? columns : columns.slice(0, 4), instances.map(row))];
}

export function handovers(all, now) {
  if (!all.length) return [empty("No hand-over yet: each lease is still with the first that had it.")];
  const row = ({ at, name, from, to, seconds }) => {
    const [mood, how] = ending(from.ended);
    const cells = [
      when(at, now),
      name,
      [named(from.incarnation, from.label), el("span", { class: "arrow" }, " → "), named(to.incarnation, to.label)],
      state(mood, how),
      duration(seconds),
    ];
    return [`${name} ${at}`, undefined, cells];
  };
  const columns = [["key when", "When"], ["", "Worker"], ["wide", "From and to"], ["", "How it ended"], ["n named", "Without a holder"]];
  const shown = all.slice(0, HANDOVERS_MAX);
  const rest = shown.slice(LATEST);
  return [
    table("handovers", "The latest hand-overs", columns, shown.slice(0, LATEST).map(row)),
    rest.length > 0 &&
      el(
        "details",
        {},
        el("summary", {}, `${many(rest.length, "earlier hand-over")}`),
        table("earlier", "Earlier hand-overs", columns, rest.map(row)),
      ),
  ];
}
