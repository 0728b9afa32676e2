import { describe, expect, it } from "vitest";
import type { ConnectionRecord, NeedRecord, ScheduleRecord, StoreRecord, TemplateRecord } from "../../api/schema";
import { formOf } from "../../lib/schema";
import { freshDraft } from "./drafts";
import { bodyOf, needWords, numberOf, stepOf, topicsFor, whereFaults } from "./steps";

const SCHEDULE: ScheduleRecord = { cadence: "daily", run_at: "06:00", day_of_week: null, day_of_month: null, date: null, days: null, week_of_month: null };
const STORES_NEEDED: NeedRecord = { kind: "store", use: "read", required: true, min: 2, max: 10 };
const template = (changes: Partial<TemplateRecord>): TemplateRecord => ({
  template_id: "t", template_version: 1, name: "A template", description: "", category: "stock", platforms: ["woocommerce"],
  connections: [], inputs_schema: {}, result_schema: null, steps: [], changes_store: false, triggers: ["schedule"], topics: {},
  default_schedule: SCHEDULE, readiness: { ready: true, missing: [] }, example_result: null, ...changes,
});
const connection = (integration_id: number, kind: string, store: boolean): ConnectionRecord => ({
  integration_id, kind, store, name: kind, state: "connected", auth: "key", account_label: null, last_ok_at: null,
});
const ALL = [connection(1, "woocommerce", true), connection(2, "shopify", true), connection(3, "teams", false)];
const FORM = formOf({ type: "object", properties: { limit: { type: "integer" } } });

describe("the wizard", () => {
  it("asks for a store, or for as many accounts as are read", () => {
    const report = template({ platforms: [], connections: [STORES_NEEDED] });
    expect(needWords(STORES_NEEDED)).toBe("2 to 10 stores");
    const draft = freshDraft(report, {}, "k", 1, "2026-11-19");
    expect(whereFaults(report, { ...draft, connections: [1, 3] }, ALL)).toEqual({ connections: ["Choose 2 to 10 stores."] });
    expect(whereFaults(report, { ...draft, connections: [2, 1] }, ALL)).toEqual({});
    expect(whereFaults(template({}), draft, ALL)).toHaveProperty("integration_id");
  });

  it("has a day for a schedule of one run, as when Once is chosen", () => {
    const sale = template({ default_schedule: { ...SCHEDULE, cadence: "once", run_at: "00:05" } });
    expect(freshDraft(sale, {}, "k", 1, "2026-11-19").schedule).toMatchObject({ cadence: "once", date: "2026-11-20", run_at: "00:05" });
    expect(freshDraft(template({}), {}, "k", 1, "2026-11-19").schedule).toEqual(SCHEDULE);
  });

  it("sends the accounts in the order they were chosen, and a store alone", () => {
    const report = template({ platforms: [], connections: [STORES_NEEDED] });
    const draft = { ...freshDraft(report, { limit: undefined }, "k", 1, "2026-11-19"), connections: [2, 1], store: 1 };
    const body = bodyOf(report, draft, FORM, ALL, "Europe/Berlin");
    expect(body.connections?.map(({ integration_id }) => integration_id)).toEqual([2, 1]);
    expect(body).not.toHaveProperty("integration_id");
    expect(body.inputs).toEqual({});
    expect(bodyOf(template({}), draft, FORM, ALL, "UTC")).toMatchObject({ integration_id: 1, trigger: { kind: "schedule" } });
  });

  it("goes to the first step a refusal belongs to", () => {
    expect(stepOf({ "inputs.teams.integration_id": [], name: [] })).toBe("what");
    expect(stepOf({ integration_id: [], inputs: [] })).toBe("where");
    expect(stepOf({ "schedule.date": [] })).toBe("when");
    expect(stepOf({})).toBeNull();
    expect([numberOf("where"), numberOf("elsewhere")]).toEqual([1, 1]);
  });

  it("offers the topics both the template and the store have", () => {
    const events = template({ triggers: ["schedule", "event"], topics: { woocommerce: ["orders/create", "orders/paid"] } });
    const store = { platform: "woocommerce", topics: ["orders/paid"] } as StoreRecord;
    expect(topicsFor(events, store)).toEqual(["orders/paid"]);
    expect(topicsFor(template({}), store)).toEqual([]);
  });
});
