import { expect, it } from "vitest";
import { timeOf } from "./typed_time";

it("takes a time as people type it, with 24 hours", () => {
  expect(["930", "9:30", "09.30", " 0:05", "2359", "14h00"].map(timeOf)).toEqual(["09:30", "09:30", "09:30", "00:05", "23:59", "14:00"]);
  expect(["", "9", "24:00", "12:60", "9:30 PM", "nine"].map(timeOf)).toEqual(["", "", "", "", "", ""]);
});
