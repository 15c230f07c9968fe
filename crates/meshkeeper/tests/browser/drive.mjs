// Drives the page in Chromium. The test that starts it has the servers: a line `do: WORD` asks it for something,
// and it answers with a line when that is done. Ends with 0 if all was as it should be.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import assert from "node:assert/strict";

const { MODULES, CHROMIUM, URL: BASE, TOKEN, IMAGES } = process.env;
const require = createRequire(MODULES + "/");
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const PATIENCE = 90_000;

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const ask = async (word) => { console.log(`do: ${word}`); await answers.next(); };

const browser = await chromium.launch({
  executablePath: CHROMIUM,
  timeout: PATIENCE,
  args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run", "--no-proxy-server"],
});
const faults = [];
const open = async (options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.on("request", (one) => { if (!one.url().startsWith(BASE)) faults.push(`left the host: ${one.url()}`); });
  page.on("console", (one) => {
    // A daemon that is asked for what is not there says so; whatever else is said is a fault.
    if (one.type() === "error") faults.push(`console of ${page.url()}: ${one.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`script of ${page.url()}: ${error}`));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  return page;
};
const live = (page) => page.waitForFunction(() => document.getElementById("live").textContent.startsWith("Live"));
const cell = (page, name) => page.locator("#grid tr", { has: page.locator(`th a[href="/consumer/${name}"]`) });
const shows = (page, selector, text) =>
  page.waitForFunction(([selector, text]) => [...document.querySelectorAll(selector)].some((one) => one.textContent.includes(text)), [selector, text]);
const at = (path) => (url) => url.pathname.startsWith(path);
const step = (text) => console.log(`step: ${text}`);

// Without a word about colours: the accessible words, in light and in dark, wide and narrow.
const check = async (page, name, picture = true) => {
  const whole = ["overview", "provider"].includes(name);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(AXE);
    const result = await page.evaluate(async () => {
      const found = await axe.run(document, { resultTypes: ["violations"] });
      return found.violations.map((one) => [one.impact, one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html)]);
    });
    const serious = result.filter(([impact]) => impact !== "minor");
    assert.deepEqual(serious, [], `${name} in ${colorScheme}`);
    if (IMAGES && picture) await page.screenshot({ path: `${IMAGES}/${name}-${colorScheme}.png`, fullPage: whole });
  }
  await page.emulateMedia({ colorScheme: "light" });
  const wide = page.viewportSize();
  await page.setViewportSize({ width: 340, height: 700 });
  const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
  assert.ok(width <= 340, `${name} is ${width} wide on a screen of 340`);
  await page.setViewportSize(wide);
};
const tabTo = async (page, selector) => {
  for (let i = 0; i < 200; i++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return;
  }
  assert.fail(`${selector} is not reached by the keyboard on ${page.url()}`);
};

try {
  step("the grid follows what happens, without a reload");
  const page = await open();
  await page.goto(BASE + "/");
  await live(page);
  await cell(page, "web").getByText("held").first().waitFor();
  await page.evaluate(() => {
    window.same = true;
    window.states = [];
    const note = () => {
      const row = document.querySelector('#grid th a[href="/consumer/web"]')?.closest("tr");
      const word = row && [...row.querySelectorAll(".badge")].map((one) => one.textContent.trim()).join(" ");
      if (word && word !== window.states.at(-1)) window.states.push(word);
    };
    note();
    new MutationObserver(note).observe(document.getElementById("grid"), { childList: true, subtree: true });
  });
  // Whoever is on a link stays there while the page changes around it.
  await page.focus('#grid a[href="/consumer/api"]');
  await ask("kill");
  await shows(page, "#grid .badge", "unknown");
  await shows(page, "#summary", "Not all is as asked");
  await page.locator('#needing a[href^="/condition/"]').first().waitFor();
  const focus = await page.evaluate(() => document.activeElement.getAttribute("href"));
  assert.equal(focus, "/consumer/api", "the focus is kept");
  await check(page, "overview");
  await ask("start");
  await page.waitForFunction(() => window.states.length > 2 && !window.states.at(-1).includes("?") && window.states.at(-1).includes("held"));
  const states = await page.evaluate(() => window.states);
  assert.ok(await page.evaluate(() => window.same), "the page was not loaded again");
  console.log(`states: ${states.join(" → ")}`);
  assert.ok(states[0].includes("held") && states.some((one) => one.includes("unknown")), states.join());

  step("a consumer's story");
  await page.goto(BASE + "/consumer/web");
  await live(page);
  await shows(page, "#telling li", "healed");
  await check(page, "consumer");
  step("a hostile login does nothing");
  await page.goto(BASE + "/consumer/evil");
  await shows(page, "#stands td", "<script>");
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  await check(page, "hostile", false);

  step("a provider, and the loops");
  await page.goto(BASE + "/provider/cache");
  await live(page);
  await page.locator("#timing svg rect").first().waitFor();
  await check(page, "provider");
  await page.goto(BASE + "/loops");
  await live(page);
  await check(page, "loops");

  step("by the keyboard alone: signing in, and acknowledging a condition");
  const keys = await open();
  await keys.goto(BASE + "/");
  await keys.keyboard.press("Tab");
  assert.ok(await keys.evaluate(() => document.activeElement.matches(".skip")), "the way past the navigation comes first");
  await keys.keyboard.press("Enter");
  assert.equal(await keys.evaluate(() => document.activeElement.id), "main");
  await keys.goto(BASE + "/");
  await tabTo(keys, 'nav a[href="/conditions"]');
  await keys.keyboard.press("Enter");
  await keys.waitForURL(at("/conditions"));
  await check(keys, "conditions", false);
  await tabTo(keys, 'main a[href*="notdurable" i], main a[href*="4e6f7444757261626c65"]');
  await keys.keyboard.press("Enter");
  await keys.waitForURL(at("/condition/"));
  await tabTo(keys, 'main a[href^="/sign-in"]');
  await keys.keyboard.press("Enter");
  await keys.waitForURL(at("/sign-in"));
  await check(keys, "sign-in", false);
  await tabTo(keys, "#token");
  await keys.keyboard.type(TOKEN);
  await keys.keyboard.press("Enter");
  await keys.waitForURL(at("/condition/"));
  await check(keys, "condition");
  await tabTo(keys, "#ack-reason");
  await keys.keyboard.type("an aclfile comes on Thursday");
  await tabTo(keys, 'form[action$="/ack"] button');
  await keys.keyboard.press("Enter");
  await shows(keys, "#condition dd", "yes, ends in");
  await shows(keys, "#trying li, #condition dd", "yes");

  step("without JavaScript");
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(BASE + "/");
  assert.match(await plain.locator("#grid").innerText(), /web[\s\S]*held/);
  assert.match(await plain.locator("#live").innerText(), /load it again/);
  await plain.fill("#q", "api");
  await plain.click('form.filter button');
  assert.match(await plain.locator("#grid").innerText(), /Consumers 1 to 1 of 1/);
  await plain.click('#grid a[href="/consumer/api"]');
  assert.match(await plain.locator("h1").innerText(), /api/);

  step("the daemon goes");
  await page.goto(BASE + "/");
  await live(page);
  const quiet = faults.length;
  await ask("stop");
  await shows(page, "#live", "Not connected");
  // That a connection is refused is said on the console, and is no fault of the page.
  faults.length = quiet;
  assert.deepEqual(faults, []);
  console.log("all is as it should be");
} catch (error) {
  console.log(`fault: ${error.stack}`);
  console.log(faults.join("\n"));
  process.exitCode = 1;
} finally {
  await browser.close();
  process.exit();
}
