// Drives the client against a live service for tests/clients/test_typescript_client.py: sleeping is a line on
// standard output, which the test answers when the worker has worked. The last line is what was seen.
import { createInterface } from "node:readline";
import * as client from "../dist/index.js";
import { callEveryOperation } from "./operations.mjs";

const { url, lost, runs, sheet, content, ...options } = JSON.parse(process.argv[2]);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let now = 0;
async function sleep(milliseconds) {
  now += milliseconds;
  process.stdout.write(`${JSON.stringify({ sleep: milliseconds })}\n`);
  await lines.next();
}

const sent = {};
const keys = new Set();
const called = new Set();
let isLost = () => false;
let count = 0;
async function lossy(address, init) {
  const { pathname } = new URL(address);
  const name = `${init.method} ${pathname.replace(/[0-9A-Z]{26}/, "{id}")}`;
  called.add(`${init.method} ${pathname}`);
  const number = count++;
  sent[name] = (sent[name] ?? 0) + 1;
  if (name.endsWith("/runs") && init.method === "POST") keys.add(JSON.parse(init.body).idempotency_key);
  const response = await fetch(address, init);
  if (isLost(name, number)) throw new TypeError("the response was lost");
  return response;
}

const steward = new client.Steward(url, { ...options, fetch: lossy, clock: () => now, sleep });
const seen = {};
const call = (answer) => steward.data(answer);
const failure = (promise) => promise.then(() => null, (error) => error);

await Promise.all(Array.from({ length: 100 }, () => call(steward.api.GET("/v1/automations/status"))));
const body = { template_id: "hide-out-of-stock-products", name: "Hide", inputs: { threshold: 0 }, schedule: { cadence: "manual" }, integration_id: 1 };
const { automation } = await call(steward.api.POST("/v1/automations", { body }));
const path = { automation_id: automation.id };
const run = (mode) => call(steward.api.POST("/v1/automations/{automation_id}/runs", { params: { path }, body: { mode } }));
const steps = [];
const done = await steward.waitFor((await run("test")).run, { onStep: (step) => steps.push(step.seq) });
seen.done = [done.status, steps];
seen.live = (await steward.waitFor((await run("live")).run)).status;
seen.pages = [];
const page = (limit) => (cursor) => call(steward.api.GET("/v1/automations/runs", { params: { query: { limit, ...(cursor ? { cursor } : {}) } } }));
for await (const { runs: listed } of steward.pages(page(1))) seen.pages.push(listed.length);

isLost = (name, number) => number % lost === 0;
const ids = [];
for (let number = 0; number < runs; number += 1) ids.push((await run("test")).run.id);
seen.ids = ids;
isLost = () => false;
seen.listed = [];
for await (const { runs: listed } of steward.pages(page(200))) seen.listed.push(...listed.map(({ id }) => id));
seen.keys = [...keys];

isLost = (name) => name.startsWith("PATCH") && sent[name] === 1;
const patch = (version) => call(steward.api.PATCH("/v1/automations/{automation_id}", { params: { path }, body: { version, name: "Another" } }));
const unknown = await failure(patch(automation.version));
seen.unknown = [unknown.name, unknown.current.automation.name, unknown instanceof client.StaleVersion];
isLost = (name) => name.endsWith("/cancel");
const cancel = steward.api.POST("/v1/automations/runs/{run_id}/cancel", { params: { path: { run_id: done.id } } });
seen.cancel = (await failure(cancel)).name;
isLost = () => false;
const wrong = await failure(call(steward.api.POST("/v1/automations", { body: { ...body, name: "" } })));
seen.wrong = [wrong.name, wrong.code, Object.keys(wrong.errors), typeof wrong.requestId];
seen.absent = (await failure(steward.api.GET("/v1/automations/runs/{run_id}", { params: { path: { run_id: automation.id } } }))).name;
now += 3600_000;
await call(steward.api.GET("/v1/automations/status"));
seen.sent = { ...sent };
seen.operations = await callEveryOperation(steward, body, { sheet, content });
seen.called = [...called];
const stranger = new client.Steward(url, { ...options, clientSecret: "wrong", fetch: lossy, clock: () => now, sleep });
const failures = await Promise.all(Array.from({ length: 100 }, () => failure(call(stranger.api.GET("/v1/automations/status")))));
seen.failures = [...new Set(failures.map((error) => error.name))];
seen.logins = sent["POST /v2/api/automations/login"];
// An exit before a pipe is written whole would cut the line off.
process.stdout.write(`${JSON.stringify({ seen })}\n`, () => process.exit(0));
