/**
 * What was filled in for new automations, saved in this browser until it is created or discarded.
 *
 * One draft a template, person and organisation. Inputs hold no secrets: keys belong to connections.
 */

import type { ScheduleRecord, TemplateRecord } from "../../api/schema";
import type { TriggerBody } from "../../lib/topics";

export interface Draft {
  store: number | null;
  /** What it reads, where it runs on no store. */
  connections: number[];
  inputs: unknown;
  schedule: ScheduleRecord;
  /** Null: the zone of the store. */
  timezone: string | null;
  trigger: TriggerBody;
  name: string;
  /** Makes a repeat after a lost answer safe. */
  key: string;
  /** The furthest step that was reached. */
  reached: number;
  /** When it was last changed. */
  at: number;
}

type StoredDrafts = Record<string, Draft>;
const MOST = 20;

/** Drafts of one person in one organisation. */
export class Drafts {
  readonly #place: string;

  constructor(organization: number, person: number) {
    this.#place = `steward-drafts-${organization}-${person}`;
  }

  all(): StoredDrafts {
    try {
      return JSON.parse(localStorage.getItem(this.#place) ?? "{}") as StoredDrafts;
    } catch {
      return {};
    }
  }

  get(template: string): Draft | null {
    return this.all()[template] ?? null;
  }

  /** Keeps one; the oldest of too many goes. */
  keep(template: string, draft: Draft): void {
    const newestFirst = Object.entries({ ...this.all(), [template]: draft }).sort(([, a], [, b]) => b.at - a.at);
    this.#write(Object.fromEntries(newestFirst.slice(0, MOST)));
  }

  drop(template: string): void {
    this.#write(Object.fromEntries(Object.entries(this.all()).filter(([name]) => name !== template)));
  }

  #write(drafts: StoredDrafts): void {
    try {
      localStorage.setItem(this.#place, JSON.stringify(drafts));
    } catch {
      // A browser that keeps nothing still lets one finish what is on the page.
    }
  }
}

/** A new draft: the template's defaults; where the store is chosen, the next step is what it does. */
export function freshDraft(template: TemplateRecord, inputs: unknown, key: string, at: number, store: number | null = null): Draft {
  return {
    store,
    connections: [],
    inputs,
    schedule: template.default_schedule,
    timezone: null,
    trigger: { kind: "schedule" },
    name: template.name,
    key,
    reached: store === null ? 1 : 2,
    at,
  };
}
