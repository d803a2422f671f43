// A real browser on one page, driven line by line: a request in JSON on stdin,
// its answer in JSON on stdout.  It ends, and the browser with it, when stdin
// does.
//
//   {"do": "open", "url": …, "width": …, "height": …, "scheme": "light"}
//   {"do": "look", "width": …, "height": …, "scheme": …}   size and colours
//   {"do": "tell", "script": …}      what an expression gives in the page
//   {"do": "until", "script": …, "within": ms}   waits until it is true
//   {"do": "press", "key": …}  {"do": "click", "at": …}  {"do": "write", "at": …, "text": …}
//   {"do": "shot", "path": …}        a picture of the whole page
//   {"do": "axe"}                    what the accessibility check finds
//   {"do": "noise"}                  what must not have happened, since the start
//
// `chromium` is Debian's; CHROMIUM names another one.
import { readFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const profile = mkdtempSync(join(tmpdir(), "atcr-page-"));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: FLAGS,
});
const page = context.pages()[0] ?? (await context.newPage());

const noise = { console: [], errors: [], failed: [], foreign: [] };
let origin = null;
page.on("console", (message) => {
  if (["error", "warning"].includes(message.type())) noise.console.push(message.text());
});
page.on("pageerror", (error) => noise.errors.push(String(error)));
page.on("request", (request) => {
  const url = request.url();
  if (!url.startsWith("data:") && !url.startsWith(`${origin}/`)) noise.foreign.push(url);
});
page.on("requestfailed", (request) => noise.failed.push(`${request.url()} ${request.failure()?.errorText}`));
page.on("response", (response) => {
  if (response.status() >= 400) noise.failed.push(`${response.url()} ${response.status()}`);
});

async function look({ width, height, scheme }) {
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
}

const does = {
  async open(request) {
    origin = new URL(request.url).origin;
    await look(request);
    const response = await page.goto(request.url);
    return response.status();
  },
  look,
  tell: ({ script }) => page.evaluate(script),
  // Asked from outside again and again: in the page, a text that is evaluated is against its policy.
  async until({ script, within }) {
    const deadline = Date.now() + within;
    for (;;) {
      const found = await page.evaluate(script);
      if (found) return found;
      if (Date.now() > deadline) throw new Error(`not within ${within} ms`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  },
  press: ({ key }) => page.keyboard.press(key),
  click: ({ at }) => page.click(at, { timeout: 5_000 }),
  write: ({ at, text }) => page.fill(at, text, { timeout: 5_000 }),
  shot: ({ path }) => page.screenshot({ path, fullPage: true }).then(() => null),
  // Evaluated from outside, so the page's own policy stays as strict as it is.
  async axe() {
    await page.evaluate(AXE);
    const { violations } = await page.evaluate((rules) => axe.run(document, { runOnly: rules }), RULES);
    return violations.map(({ id, nodes }) => ({ id, at: nodes.map(({ html, failureSummary }) => `${html}: ${failureSummary}`) }));
  },
  noise: () => noise,
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  try {
    const answer = await does[request.do](request);
    console.log(JSON.stringify({ answer: answer ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
await context.close();
rmSync(profile, { recursive: true, force: true });
