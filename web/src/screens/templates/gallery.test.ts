import { describe, expect, it } from "vitest";
import type { TemplateRecord } from "../../api/schema";
import { lacks } from "./gallery";

const template = (missing: string[]): TemplateRecord =>
  ({ platforms: ["shopify"], readiness: { ready: false, missing } }) as unknown as TemplateRecord;

describe("what a template lacks", () => {
  it("names every platform that takes messages for a channel", () => {
    expect(lacks(template(["teams"]), ["Microsoft Teams", "Slack"])).toBe("Needs a channel for messages (Microsoft Teams, Slack)");
    expect(lacks(template(["spreadsheet", "teams"]))).toBe("Needs a spreadsheet or a channel for messages");
  });
});
