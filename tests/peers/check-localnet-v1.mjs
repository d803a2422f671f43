// Points two Jetstream clients that others wrote at localnet's first wire, and
// checks that they see what its repositories hold.
//
//   localnet serve >localnet.json &
//   node --import ./loopback-only.mjs check-localnet-v1.mjs localnet.json
//
// @skyware/jetstream drops events it cannot use without a word, so what came is
// compared with what is held; @atcute/jetstream validates every event.
import fs from "node:fs";
import assert from "node:assert/strict";
import WebSocket from "ws";
import { Jetstream } from "@skyware/jetstream";
import { JetstreamSubscription } from "@atcute/jetstream";

const net = JSON.parse(fs.readFileSync(process.argv[2], "utf8").split("\n")[0]);
const [url] = net.jetstreams, [alice, bob] = net.users;
const collections = ["manifest", "tag", "repo.page", "sailor.profile", "sailor.star",
  "hold.captain", "hold.crew", "hold.stats", "hold.scan"].map((name) => `io.atcr.${name}`);
let passed = 0, failed = 0;
const check = async (name, fn) => {
  try { const note = await fn(); passed++; console.log(`ok    ${name}${note ? `: ${note}` : ""}`); }
  catch (e) { failed++; console.log(`FAIL  ${name}: ${e.message.slice(0, 600)}`); }
};
const json = async (url, body) => {
  const res = await fetch(url, body && { method: "POST", body: JSON.stringify(body) });
  assert(res.ok, `${url}: HTTP ${res.status}`);
  return res.json();
};
const tell = (command, body) => json(`${net.control}/${command}`, body);
const put = (did, rkey, collection = "io.atcr.tag") =>
  tell("put", { did, collection, rkey, record: { repository: "live", tag: rkey } });
const until = async (what, is) => {
  for (const end = Date.now() + 20_000; !is();) {
    assert(Date.now() < end, `not within 20 s: ${what()}`);
    await new Promise((r) => setTimeout(r, 20));
  }
};
const handshakes = async () => (await json(`${net.control}/stats`)).jetstreams[0].handshakes;

async function held() {
  const out = {};
  for (const collection of collections) {
    for (const did of net.users) {
      for (let cursor, first = true; first || cursor; first = false) {
        const page = `repo=${did}&collection=${collection}&limit=100${cursor ? `&cursor=${cursor}` : ""}`;
        const { records, cursor: next } = await json(`${net.pds}/xrpc/com.atproto.repo.listRecords?${page}`);
        for (const r of records) out[r.uri] = { cid: r.cid, value: r.value };
        cursor = next;
      }
    }
  }
  return out;
}
const fold = (events) => {
  const out = {};
  for (const { did, commit } of events) {
    if (!net.users.includes(did)) continue; // the hold, which is a host of its own
    const uri = `at://${did}/${commit.collection}/${commit.rkey}`;
    if (commit.operation === "delete") delete out[uri];
    else out[uri] = { cid: commit.cid, value: commit.record };
  }
  return out;
};
const same = (events, wanted) => {
  try { assert.deepEqual(fold(events), wanted); return true; } catch { return false; }
};
// Each kind of event is in what is replayed.
await put(alice, "gone"); await put(alice, "gone");
await tell("delete", { did: alice, collection: "io.atcr.tag", rkey: "gone" });
await tell("identity", { did: alice });
await tell("set-account", { did: bob, active: false, status: "deactivated" });
await tell("set-account", { did: bob, active: true, status: null });
const all = await held();
assert(Object.keys(all).length > 20, "localnet holds too little to show anything");

await check("@skyware/jetstream: a replay folds to what the repositories hold", async () => {
  const commits = [], others = [];
  const js = new Jetstream({ ws: WebSocket, endpoint: url, cursor: 1, wantedCollections: ["io.atcr.*"] });
  js.on("commit", (e) => commits.push(e));
  js.on("identity", (e) => others.push(e)); js.on("account", (e) => others.push(e));
  js.on("error", (e) => { throw e; });
  js.start();
  await until(() => `${commits.length} commits, ${others.length} others`, () => others.length >= 3 && same(commits, all));
  js.close();
  return `${commits.length} commits, ${others.length} identity and account events`;
});

// But for an identity without a handle, which the lexicon allows and the real
// servers send: the client's schema (2.0.0) demands one.  It drops the event,
// tells of it, and goes on.
await check("@atcute/jetstream: every event passes its schema", async () => {
  const events = [], errors = [], kinds = {};
  const sub = new JetstreamSubscription({
    url, cursor: 1, validateEvents: true, wantedCollections: ["io.atcr.*"], ws: { WebSocket },
    onConnectionError: (e) => errors.push(e), onError: (e) => errors.push(e),
  });
  const it = sub[Symbol.asyncIterator]();
  (async () => { for (;;) { const { value, done } = await it.next(); if (done) return; events.push(value); } })();
  const commits = () => events.filter((e) => e.kind === "commit");
  const said = () => errors.map((e) => String(e?.error ?? e?.message ?? e));
  await until(() => `${events.length} events, errors: ${said()}`,
    () => same(commits(), all) && events.length - commits().length >= 2 && errors.length >= 1);
  await it.return?.();
  assert.equal(errors.length, 1, said().join("\n"));
  assert.match(said()[0], /Expected "handle" but received undefined/);
  for (const e of events) kinds[e.kind] = (kinds[e.kind] ?? 0) + 1;
  return JSON.stringify(kinds);
});

await check("wantedDids, live events and options_update", async () => {
  const seen = [], before = await handshakes();
  const js = new Jetstream({ ws: WebSocket, endpoint: url, wantedCollections: ["io.atcr.tag"], wantedDids: [alice] });
  js.on("commit", (e) => seen.push(e.commit.rkey));
  js.start();
  for (const end = Date.now() + 20_000; (await handshakes()) === before;) assert(Date.now() < end, "no handshake");
  await put(alice, "one");
  await put(bob, "two");                     // another account: not wanted
  await put(alice, "three", "io.atcr.other"); // another collection: not wanted
  await put(alice, "four");
  await until(() => seen, () => seen.length >= 2);
  js.updateOptions({ wantedCollections: ["io.atcr.other"], wantedDids: [bob], maxMessageSizeBytes: 0 });
  // The server does not say when it has heard: what comes first of a row of records tells.
  for (let n = 0; seen.length === 2; n++) {
    assert(n < 400, "the new options did not come into force");
    await put(bob, `five${n}`, "io.atcr.other");
    await new Promise((r) => setTimeout(r, 50));
  }
  js.close();
  assert.deepEqual(seen.slice(0, 2), ["one", "four"]);
  assert(seen.slice(2).every((rkey) => rkey.startsWith("five")), seen);
});

await check("a client that was cut goes on where it was", async () => {
  const seen = [], before = await handshakes();
  const js = new Jetstream({ ws: WebSocket, endpoint: url, cursor: 1, wantedCollections: ["io.atcr.*"] });
  js.on("commit", (e) => seen.push(e));
  js.on("error", () => {});
  js.start();
  const now = await held();
  await until(() => `${seen.length} commits`, () => seen.some((e) => e.commit.rkey === "four"));
  await tell("cut", {});
  await put(alice, "gap");
  await until(() => `${seen.length} commits`, () => seen.some((e) => e.commit.rkey === "gap"));
  assert((await handshakes()) >= before + 2, "it was not cut");
  js.close();
  assert(Object.keys(now).every((uri) => uri in fold(seen)));
});

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
