// Is all well? One sentence on top, and what needs somebody's attention. Pure.

import { BEHIND_SECONDS, followed } from "./streams.js";
import { duration, many } from "./words.js";

/** A delivery that is due for longer is late. */
const DUE_SECONDS = 60;

/** The mood, the sentence, and the list of [mood, text]. No number in it that changes by itself: it is read out. */
export function verdict(report) {
  const { leases, instances } = report;
  if (!leases.length) return ["warn", "No worker has a lease yet.", []];
  const attention = notes(report);
  const idle = leases.filter((lease) => !lease.holder && !lease.paused).map((lease) => lease.name);
  if (idle.length) return ["bad", `Nobody runs ${list(idle)}.`, attention];
  const paused = leases.filter((lease) => lease.paused).map((lease) => lease.name);
  if (paused.length) return ["warn", `${list(paused)} ${paused.length > 1 ? "are" : "is"} paused; every other worker runs.`, attention];
  return [attention[0]?.[0] ?? "good", `Every worker runs, on ${many(instances.length, "instance")}.`, attention];
}

function notes(report) {
  const { outbox, labels, backfill, holds } = report;
  const stream = followed(report);
  const draining = report.instances.filter((instance) => instance.state !== "up").map((instance) => instance.label);
  const down = new Set(holds.flatMap((of) => of.down.map((hold) => hold.did)));
  const found = [
    labels.position_refused && ["bad", "The labeler refuses our position: takedowns do not arrive."],
    stream && stream.position_seconds_ago > BEHIND_SECONDS && ["warn", `The index is more than ${duration(BEHIND_SECONDS)} behind ${stream.host}.`],
    outbox.due_seconds > DUE_SECONDS && ["warn", `Webhook deliveries are more than ${duration(DUE_SECONDS)} late.`],
    outbox.webhooks_disabled > 0 && ["warn", `${many(outbox.webhooks_disabled, "webhook is", "webhooks are")} disabled.`],
    down.size > 0 && ["warn", `${many(down.size, "hold does", "holds do")} not answer.`],
    labels.answered && !labels.connected && ["warn", "The labeler is not connected."],
    backfill.run?.repositories_failed > 0 && ["warn", `${many(backfill.run.repositories_failed, "repository", "repositories")} could not be read, and will be tried again.`],
    draining.length > 0 && ["idle", `${list(draining)} ${draining.length > 1 ? "take" : "takes"} no leases (draining).`],
  ];
  return found.filter(Boolean);
}

function list(names) {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0];
}
