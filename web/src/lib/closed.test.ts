import { describe, expect, it } from "vitest";
import { closingWords, freezeReason, localClosing } from "./closed";

const NOW = Date.parse("2026-11-28T12:00Z");

describe("a closing", () => {
  const closing = { period_id: "P", name: "Christmas", scope: { kind: "organization" }, stops: "runs", start: "2026-12-23T23:00:00.000Z", end: "2026-12-26T23:00:00.000Z" };

  it("is told on the viewer's clock, with what it stops", () => {
    expect(closingWords(closing, "Europe/Berlin", NOW)).toBe("Christmas (no runs), Thu 24 Dec to Sat 26 Dec");
    expect(closingWords({ ...closing, end: "2026-12-24T05:30:00.000Z" }, "Europe/Berlin", NOW)).toBe("Christmas (no runs), Thu 24 Dec, 00:00 to 06:30");
    expect(closingWords({ ...closing, stops: "changes", end: null }, "UTC", NOW)).toBe(
      "Christmas (no changes), Wed 23 Dec, 23:00 until somebody resumes changes",
    );
  });

  it("is told on its own clock, and says when that changes meanwhile", () => {
    expect(localClosing("2026-12-24T00:00+01:00", "2026-12-27T00:00+01:00", NOW)).toBe("Thu 24 Dec, 00:00 until Sun 27 Dec, 00:00");
    expect(localClosing("2027-03-28T00:00+01:00", "2027-03-29T00:00+02:00", NOW)).toBe(
      "Sun 28 Mar 2027, 00:00 until Mon 29 Mar 2027, 00:00; the clock goes forward in between",
    );
    expect(localClosing("2026-11-01T00:00-02:30", "2026-11-02T00:00-03:30", NOW)).toMatch(/; the clock goes back in between$/);
  });
});

describe("a stop of all changes", () => {
  it("is named by its reason where one was given", () => {
    expect([freezeReason("Changes are stopped"), freezeReason("Wrong prices")]).toEqual(["", " (Wrong prices)"]);
  });
});
