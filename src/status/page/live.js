// The line to the instance: takes what it sends, notices when nothing comes, and comes back.

import { moment } from "./words.js";

/** The instance tells something twice a second. */
const SILENT_MS = 5_000;
const AGAIN_MS = 2_000;

const get = (id) => document.getElementById(id);

/** When something came last; none before the first. */
let heard = null;
let source = null;

function say(is, text) {
  const line = get("live");
  if (line.dataset.is !== is) line.dataset.is = is;
  if (line.textContent !== text) line.textContent = text;
  // What is shown is of then; a calm page that is hours old would be a lie.
  const isOld = is === "lost" && heard !== null;
  document.body.classList.toggle("old", isOld);
  get("old").hidden = !isOld;
  if (isOld) {
    const told = `What is shown is of ${moment(heard)}. ${text}.`;
    if (get("old").textContent !== told) get("old").textContent = told;
  }
}

function lost(why) {
  say("lost", heard === null ? why : `${why} since ${moment(heard)}`);
}

/** Calls these with what comes, by the name of the event, for as long as the page is open. */
export function follow(handlers) {
  source?.close();
  source = new EventSource("events");
  for (const [name, take] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => {
      heard = Date.now();
      say("live", "live");
      take(JSON.parse(event.data));
    });
  }
  source.addEventListener("away", (event) => say("lost", `The database does not answer: ${event.data}`));
  source.addEventListener("error", () => {
    lost("connection lost");
    // Closed for good: the instance answered otherwise, as when as many pages are open as may be.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(handlers), AGAIN_MS);
  });
}

/** A connection that stands while nothing comes is lost, too: a frozen instance closes nothing. */
setInterval(() => {
  const isSilent = heard !== null && Date.now() - heard > SILENT_MS;
  if (isSilent && get("live").dataset.is === "live") lost("nothing heard");
}, 1_000);
