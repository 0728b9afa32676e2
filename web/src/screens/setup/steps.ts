/** The wizard's steps: what each needs, what is sent at the end, and where a refusal belongs. */

import type { ConnectionRecord, CreateBody, NeedRecord, StoreRecord, TemplateRecord } from "../../api/schema";
import { type Field, sent } from "../../lib/schema";
import { CONNECTION_KINDS } from "../../lib/record_words";
import type { Draft } from "./drafts";

export const STEPS = [
  { name: "template", words: "Template" },
  { name: "where", words: "Where" },
  { name: "what", words: "What" },
  { name: "when", words: "When" },
] as const;
export type StepName = (typeof STEPS)[number]["name"];

export function numberOf(step: string | undefined): number {
  return Math.max(1, STEPS.findIndex(({ name }) => name === step));
}

/** What a template without a store reads; where it sends is part of its inputs. */
export function reads(template: TemplateRecord): NeedRecord[] {
  return template.platforms.length ? [] : template.connections.filter(({ use }) => use === "read");
}

/** The stores a template can run on. */
export function storesFor(template: TemplateRecord, stores: readonly StoreRecord[]): StoreRecord[] {
  return stores.filter(({ platform }) => template.platforms.includes(platform));
}

export function fits(need: NeedRecord, connection: ConnectionRecord): boolean {
  return need.kind === "store" ? connection.store : connection.kind === need.kind;
}

/** "2 to 10 stores", "1 spreadsheet". */
export function needWords({ kind, min, max }: NeedRecord): string {
  const singular = CONNECTION_KINDS[kind]?.singular ?? kind;
  const plural = max > 1 ? `${singular}s` : singular;
  return min === max ? `${min} ${plural}` : `${min} to ${max} ${plural}`;
}

/** What is wrong with the second step, by the path the service names. */
export function whereFaults(template: TemplateRecord, draft: Draft, connections: readonly ConnectionRecord[]): Record<string, string[]> {
  if (template.platforms.length) return draft.store === null ? { integration_id: ["Choose the store it runs on."] } : {};
  for (const need of reads(template)) {
    const chosen = connections.filter((connection) => draft.connections.includes(connection.integration_id) && fits(need, connection)).length;
    if (chosen < need.min || chosen > need.max) return { connections: [`Choose ${needWords(need)}.`] };
  }
  return {};
}

/** Whether a run of it does nothing outside before somebody approved it: it changes a store, and sends nothing unasked. */
export function asksFirst(template: TemplateRecord): boolean {
  return template.changes_store && !sendsUnasked(template).length;
}

/** The steps that send without asking. */
export function sendsUnasked({ steps }: TemplateRecord): TemplateRecord["steps"] {
  return steps.filter((step) => step.kind === "send" && !step.needs_approval);
}

/** The topics the template may be started by on this store. */
export function topicsFor(template: TemplateRecord, store: StoreRecord | undefined): string[] {
  if (!store || !template.triggers.includes("event")) return [];
  return (template.topics[store.platform] ?? []).filter((topic) => store.topics.includes(topic));
}

/** What creates the automation. */
export function bodyOf(
  template: TemplateRecord, draft: Draft, form: Field, connections: readonly ConnectionRecord[], timezone: string,
): CreateBody {
  const chosen = draft.connections.flatMap((id) => connections.filter((connection) => connection.integration_id === id));
  const onStore = template.platforms.length > 0;
  return {
    template_id: template.template_id,
    name: draft.name,
    inputs: (sent(form, draft.inputs) ?? {}) as Record<string, unknown>,
    schedule: draft.schedule,
    timezone,
    trigger: draft.trigger,
    idempotency_key: draft.key,
    ...(onStore
      ? { integration_id: draft.store }
      : { connections: chosen.map(({ integration_id, kind }) => ({ integration_id, kind })) }),
  };
}

/** The first step a refusal's messages belong to; null when they belong to none. */
export function stepOf(errors: Readonly<Record<string, unknown>>): StepName | null {
  const paths = Object.keys(errors);
  const has = (start: string) => paths.some((path) => path === start || path.startsWith(`${start}.`));
  if (has("integration_id") || has("connections")) return "where";
  if (has("inputs") || has("name")) return "what";
  return paths.length ? "when" : null;
}
