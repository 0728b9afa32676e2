/**
 * Drafts of new automations, stored in this browser until they are created or discarded.
 *
 * One draft per template, person and organization. Inputs hold no secrets: keys belong to connections.
 */

import type { ScheduleRecord, TemplateRecord } from "../../api/schema";
import { withCadence } from "../../lib/schedule";
import type { TriggerBody } from "../../lib/topics";

export interface Draft {
  store: number | null;
  /** The connections it reads, if it runs on no store. */
  connections: number[];
  inputs: unknown;
  schedule: ScheduleRecord;
  /** The timezone; null for the store's. */
  timezone: string | null;
  trigger: TriggerBody;
  name: string;
  /** Makes a repeated request after a lost response safe. */
  key: string;
  /** The furthest step that was reached. */
  reached: number;
  /** When it was last changed. */
  at: number;
}

type StoredDrafts = Record<string, Draft>;
const MOST = 20;

/** The drafts of one person in one organization. */
export class Drafts {
  readonly #storageKey: string;

  constructor(organization: number, person: number) {
    this.#storageKey = `steward-drafts-${organization}-${person}`;
  }

  all(): StoredDrafts {
    try {
      return JSON.parse(localStorage.getItem(this.#storageKey) ?? "{}") as StoredDrafts;
    } catch {
      return {};
    }
  }

  get(template: string): Draft | null {
    return this.all()[template] ?? null;
  }

  /** Stores a draft, and drops the oldest of too many. */
  keep(template: string, draft: Draft): void {
    const newestFirst = Object.entries({ ...this.all(), [template]: draft }).sort(([, a], [, b]) => b.at - a.at);
    this.#write(Object.fromEntries(newestFirst.slice(0, MOST)));
  }

  drop(template: string): void {
    this.#write(Object.fromEntries(Object.entries(this.all()).filter(([name]) => name !== template)));
  }

  #write(drafts: StoredDrafts): void {
    try {
      localStorage.setItem(this.#storageKey, JSON.stringify(drafts));
    } catch {
      // Without storage a person can still finish what is on the page.
    }
  }
}

/** A new draft with the template's defaults; with a store chosen it begins at the second step. */
export function freshDraft(template: TemplateRecord, inputs: unknown, key: string, at: number, today: string, store: number | null = null): Draft {
  return {
    store,
    connections: [],
    inputs,
    // A schedule of one run has no date of its own: it gets tomorrow's, as when "Once" is chosen.
    schedule: withCadence(template.default_schedule, template.default_schedule.cadence, today),
    timezone: null,
    trigger: { kind: "schedule" },
    name: template.name,
    key,
    reached: store === null ? 1 : 2,
    at,
  };
}
