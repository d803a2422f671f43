// The small sections: backfill, webhooks, labels, holds.

import { named } from "./colors.js";
import { el, empty, facts, state } from "./elements.js";
import { ago, age, count, duration, many } from "./words.js";

/** Holds that are listed of one instance. */
const DOWN_MAX = 20;

export function backfill(part, now) {
  const { run } = part;
  const oldest = part.requests_oldest_seconds_ago;
  const wishes = part.requests
    ? `${many(part.requests, "wish", "wishes")}${part.requests_every ? ", one for every repository" : ""}, the oldest ${age(oldest)} old`
    : "no wish waits";
  if (!run) return [empty("No run yet."), facts([["Asked for", wishes]])];
  const isOn = run.state === "running";
  const share = run.repositories ? run.repositories_done / run.repositories : 0;
  return [
    el("p", { class: "line" }, state({ running: "good", ended: "good" }[run.state] ?? "idle", run.state), el("span", { class: "soft" }, `run ${run.id}, ${run.reason}${run.forced ? ", every record anew" : ""}`)),
    isOn && el("progress", { max: Math.max(1, run.repositories), value: run.repositories_done, "aria-label": "Repositories read" }),
    facts([
      ["Repositories", `${count(run.repositories_done)} of ${count(run.repositories)}${isOn ? ` (${Math.floor(share * 100)} %)` : ""}`],
      ["Failed", run.repositories_failed ? state("warn", `${count(run.repositories_failed)}, tried again`) : "none"],
      ["Lists to read", run.lists_waiting ? count(run.lists_waiting) : null],
      ["Time left", isOn ? left(run, now) : null],
      ["Records", `${count(run.records)} read, ${count(run.records_changed)} changed`],
      ["Missed by stream", count(run.records_missed)],
      [run.ended_at ? "Ended" : "Began", ago(run.ended_at ?? run.started_at, now)],
      ["Asked for", wishes],
    ]),
  ];
}

/** By the rate so far, once a hundredth is done. */
function left(run, now) {
  const seconds = (now - Date.parse(run.started_at)) / 1000;
  const [done, all] = [run.repositories_done, run.repositories];
  if (run.lists_waiting || done < all / 100 || !done) return "not known yet";
  return `about ${age(((all - done) * seconds) / done)}`;
}

export function outbox(part) {
  const late = part.due_seconds > 60;
  return [
    facts([
      ["Waiting", part.waiting ? many(part.waiting, "delivery", "deliveries") : "none"],
      ["Due", part.due_seconds ? state(late ? "warn" : "good", `the oldest for ${duration(part.due_seconds)}`) : "none"],
      ["Webhooks", part.webhooks ? state("good", `${count(part.webhooks)} enabled`) : "none enabled"],
      ["Disabled", part.webhooks_disabled ? state("warn", count(part.webhooks_disabled)) : null],
    ]),
  ];
}

export function labels(part, now) {
  if (!part.labeler) return [empty("No labeler was ever followed (labeler.did).")];
  const mood = part.position_refused ? "bad" : part.connected ? "good" : part.answered ? "warn" : "idle";
  const word = part.position_refused
    ? "it refuses our position"
    : part.connected
      ? "connected"
      : part.answered
        ? "not connected"
        : part.reason;
  return [
    el("p", { class: "line" }, state(mood, word)),
    facts([
      ["Labeler", el("span", { class: "did" }, part.labeler)],
      ["Taken down", many(part.taken_down, "subject")],
      ["In effect", many(part.in_effect, "label")],
      ["Not verified", part.not_verified ? state("warn", `${count(part.not_verified)}, of no effect`) : null],
      ["Position", `${count(part.seq)}${part.era ? `, counted anew ${part.era} times` : ""}`],
      ["Saved", ago(part.saved_at, now)],
      ["List checked", part.last_check_at && ago(part.last_check_at, now)],
      ["Signatures", part.verify_signatures ? "verified" : state("warn", "not verified")],
    ]),
  ];
}

export function holds(part, now) {
  if (!part.length) return [empty("No instance to ask.")];
  return part.map((of) =>
    el(
      "div",
      { class: "of", "data-key": of.incarnation },
      el("h3", {}, named(of.incarnation, of.label)),
      of.answered && of.enabled ? known(of, now) : el("p", { class: "empty" }, of.answered ? "asks no holds (hold_health.enabled)" : (of.reason ?? "was not asked")),
    ),
  );
}

function known(of, now) {
  const line = (hold) => el("li", {}, state("bad", el("span", { class: "did" }, hold.did)), el("div", { class: "note" }, hold.error ?? "does not answer"));
  const more = of.down.length - DOWN_MAX;
  return [
    facts([
      ["Answering", state("good", count(of.reachable))],
      ["Not answering", of.unreachable ? state("bad", count(of.unreachable)) : "none"],
      ["Not known", of.unknown ? count(of.unknown) : null],
      ["Left out", of.left_out ? state("warn", count(of.left_out)) : null],
      ["Round ended", of.round_ended_at ? ago(of.round_ended_at, now) : "not yet"],
    ]),
    of.down.length > 0 && el("ul", { class: "plain" }, of.down.slice(0, DOWN_MAX).map(line), more > 0 && el("li", {}, `and ${count(more)} more`)),
  ];
}
