import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FollowedRun } from "./followed_run.svelte";

const START = Date.parse("2026-03-02T09:00:00Z");
const page = Object.assign(new EventTarget(), { hidden: false });
let status = "queued";
let requests: number[] = [];

/** Responds to the request for the run as the service does. */
function respond(): Promise<Response> {
  requests.push(vi.getMockedSystemTime()!.getTime() - START);
  const body = { success: true, data: { run: { id: "1", status, steps: [], more_steps: false } } };
  return Promise.resolve(new Response(JSON.stringify(body), { headers: { "content-type": "application/json" } }));
}

/** Moves the time on and returns when requests were sent, in milliseconds after the test began. */
async function requestsAfter(ms: number): Promise<number[]> {
  await vi.advanceTimersByTimeAsync(ms);
  return requests.splice(0);
}

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  vi.stubGlobal("document", page);
  vi.stubGlobal("fetch", respond);
  [status, requests, page.hidden] = ["queued", [], false];
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("a followed run", () => {
  it("is read soon after a change of status, then ever less often", async () => {
    const followed = new FollowedRun("1");
    const end = followed.follow();
    expect(await requestsAfter(8000)).toEqual([0, 250, 750, 1750, 3750, 5750, 7750]);
    status = "running";
    expect(await requestsAfter(4000)).toEqual([9750, 10_000, 10_500, 11_500]);
    status = "succeeded";
    expect(await requestsAfter(60_000)).toEqual([13_500]);
    await end;
    expect(followed.ended).toBe(true);
  });

  it("is read every ten seconds while it waits for approval, and at once after an action", async () => {
    status = "waiting_approval";
    const followed = new FollowedRun("1");
    const end = followed.follow();
    expect(await requestsAfter(25_000)).toEqual([0, 10_000, 20_000]);
    status = "running";
    followed.put(followed.run!);
    expect(await requestsAfter(400)).toEqual([25_000, 25_250]);
    followed.stop();
    await end;
  });

  it("is not read in a hidden tab, and at once when the tab is shown again", async () => {
    const followed = new FollowedRun("1");
    const end = followed.follow();
    expect(await requestsAfter(0)).toEqual([0]);
    page.hidden = true;
    expect(await requestsAfter(60_000)).toEqual([]);
    page.hidden = false;
    page.dispatchEvent(new Event("visibilitychange"));
    expect(await requestsAfter(0)).toEqual([60_000]);
    followed.stop();
    await end;
  });
});
