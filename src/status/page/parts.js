// The small sections: backfill, webhooks, holds.

import { el } from "./elements.js";
import { count, duration, moment } from "./words.js";

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", {}, ...shown.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

const empty = (text) => [el("p", { class: "empty" }, text)];

export function backfill(part) {
  const run = part?.run;
  const wishes = part?.requests ? `${count(part.requests)}${part.requests_every ? ", one of them for every repository" : ""}` : "none";
  if (!run) return [...empty("No run yet."), facts([["Asked for", wishes]])];
  const bar = el("progress", { max: Math.max(1, run.repositories), value: run.repositories_done, "aria-label": "Repositories read" });
  return [
    run.state === "running" ? bar : null,
    facts([
      ["Run", `${run.id}, ${run.reason}: ${run.state}`],
      ["Began", moment(run.started_at)],
      ["Ended", run.ended_at && moment(run.ended_at)],
      ["Repositories", `${count(run.repositories_done)} of ${count(run.repositories)}${run.repositories_failed ? `, ${count(run.repositories_failed)} failed` : ""}`],
      ["Records", `${count(run.records)} read, ${count(run.records_changed)} changed`],
      ["Missed by stream", count(run.records_missed)],
      ["Asked for", wishes],
    ]),
  ].filter(Boolean);
}

export function outbox(part) {
  return [
    facts([
      ["Waiting", count(part.waiting)],
      ["Due for", part.due_seconds ? duration(part.due_seconds) : "nothing is due"],
      ["Webhooks", `${count(part.webhooks)}${part.webhooks_disabled ? `, ${count(part.webhooks_disabled)} disabled` : ""}`],
    ]),
  ];
}

export function holds(part) {
  if (!part?.length) return empty("Nobody asks the holds.");
  return part.flatMap((of) => [
    el("p", {}, el("strong", {}, of.label), of.answered ? ` ${told(of)}` : ` ${of.reason ?? "not asked"}`),
    of.down?.length ? el("ul", {}, ...of.down.slice(0, 20).map((hold) => el("li", { class: "bad" }, `${hold.did}: ${hold.error ?? "does not answer"}`))) : null,
  ].filter(Boolean));
}

function told(of) {
  if (of.enabled === false) return "does not ask";
  return `${count(of.reachable)} answer, ${count(of.unreachable)} do not, ${count(of.unknown)} unknown`;
}
