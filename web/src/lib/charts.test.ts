import { expect, test } from "vitest";
import { barWords, formOf, stacked, stripWords } from "./charts";

test("a strip says in words how its runs ended", () => {
  const ticks = ["succeeded", "failed", "succeeded"].map((status, index) => ({ id: String(index), status, at: "2026-11-21T06:00:00Z" }));
  expect(stripWords(ticks)).toBe("Last 3 runs: 2 done, 1 failed.");
  expect(stripWords(ticks.slice(0, 1))).toBe("Last run: done.");
  expect(stripWords([])).toBe("No runs yet.");
});

test("every status that needs a look has a form of its own", () => {
  const forms = ["succeeded", "failed", "waiting_approval", "running", "cancelled"].map((status) => formOf(status).form);
  expect(new Set(forms).size).toBe(forms.length);
});

test("a bar is as high as what it counts, and nothing counted is invisible", () => {
  const segments = [
    { tone: "good", value: 1000, words: "succeeded" },
    { tone: "warn", value: 0, words: "waiting" },
    { tone: "bad", value: 1, words: "failed" },
  ] as const;
  const drawn = stacked(segments, 1001, 60);
  expect(drawn.map(({ tone }) => tone)).toEqual(["good", "bad"]);
  expect(drawn[1]!.size).toBe(3);
  expect(drawn[1]!.from + drawn[1]!.size).toBeLessThanOrEqual(60);
  expect(barWords({ key: "a", title: "Sat 21 Nov", segments }, "no runs")).toBe("Sat 21 Nov: 1,000 succeeded, 1 failed");
  expect(barWords({ key: "a", title: "Sat 21 Nov", segments: [] }, "no runs")).toBe("Sat 21 Nov: no runs");
});
