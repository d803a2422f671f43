// What can be asked for, once somebody has signed in with the token. The token is kept in this page's memory and nowhere else:
// it is gone with the page.

import { el } from "./elements.js";

const get = (id) => document.getElementById(id);

let token = null;
/** Calls for the page to be drawn anew. */
let redraw = () => {};
let latest = null;

export const isSignedIn = () => token !== null;

/** Offers to sign in where the instance takes a token at all. */
export function offer(state) {
  latest = state;
  get("sign").hidden = !state.actions;
  const text = token === null ? "Sign in" : "Sign out";
  if (get("sign").textContent !== text) get("sign").textContent = text;
}

async function ask(method, shown, body) {
  const headers = { authorization: `Bearer ${shown}`, ...(body && { "content-type": "application/json" }) };
  try {
    const answer = await fetch("actions", { method, headers, body: body && JSON.stringify(body), credentials: "omit" });
    const { done, error } = await answer.json();
    return { isDone: answer.ok, text: done ?? error, isTokenWrong: answer.status === 401 };
  } catch {
    return { isDone: false, text: "the instance does not answer" };
  }
}

/** What came of it, for everybody. */
function tell({ isDone, text }) {
  get("result").dataset.is = isDone ? "good" : "bad";
  get("result").textContent = `${isDone ? "Asked for" : "Not done"}: ${text}.`;
  get("result-box").hidden = false;
}

/** The wish that a button is for: title, what follows, its word, the wish, and perhaps a choice. */
function wish({ do: does, lease, instance, label }) {
  const up = latest.report.instances.filter((instance) => instance.state === "up");
  const holder = latest.report.leases.find((known) => known.name === lease)?.holder?.incarnation;
  return {
    drain: () => [`Drain ${label}?`, "It gives its leases up to the other instances, and takes none until it is undrained.", "Drain", { instance }],
    undrain: () => [`Undrain ${label}?`, "It takes leases again.", "Undrain", { instance }],
    pause: () => [`Pause ${lease}?`, "Its worker is stopped on every instance, until it is resumed.", "Pause", { lease }],
    resume: () => [`Resume ${lease}?`, "One of the instances runs its worker again.", "Resume", { lease }],
    move: () => [`Move ${lease}`, "The worker stops where it runs, and starts there.", "Move", { lease }, up.filter((instance) => instance.incarnation !== holder)],
    backfill: () => ["Read every repository again?", "Every record is written anew, whatever the index knows. That takes a while.", "Read again", { all: true }],
  }[does]();
}

function confirm(button) {
  const [title, text, word, body, choices] = wish(button.dataset);
  const dialog = get("confirm");
  get("confirm-title").textContent = title;
  get("confirm-text").textContent = choices && !choices.length ? "No other instance is there that takes leases." : text;
  get("confirm-do").textContent = word;
  get("confirm-do").disabled = choices?.length === 0;
  get("choice").hidden = !choices?.length;
  get("choice-of").replaceChildren(...(choices ?? []).map(({ incarnation, label }) => el("option", { value: incarnation }, `${label} (${incarnation.slice(0, 6)})`)));
  dialog.onclose = async () => {
    if (dialog.returnValue !== "do") return;
    const chosen = choices ? { instance: get("choice-of").value } : {};
    const came = await ask("POST", token, { action: button.dataset.do, ...body, ...chosen });
    if (came.isTokenWrong) token = null;
    tell(came);
    redraw();
  };
  dialog.returnValue = "";
  dialog.showModal();
}

async function signIn() {
  const shown = get("token").value;
  get("sign-error").textContent = "";
  const came = await ask("GET", shown);
  if (!came.isDone) {
    get("sign-error").textContent = `${came.text}.`;
    return;
  }
  token = shown;
  get("token").value = "";
  get("sign-in").close();
  redraw();
}

/** Listens to every button there is and will be. */
export function listen(draw) {
  redraw = draw;
  get("sign").addEventListener("click", () => {
    if (token === null) {
      get("sign-error").textContent = "";
      get("sign-in").showModal();
    } else {
      token = null;
      redraw();
    }
  });
  get("sign-form").addEventListener("submit", (event) => {
    event.preventDefault();
    signIn();
  });
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (button?.dataset.do && token !== null) confirm(button);
    if (button?.dataset.close) button.closest("dialog").close(button.dataset.close);
    if (button?.id === "result-close") get("result-box").hidden = true;
  });
}
