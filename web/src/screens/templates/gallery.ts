/** The gallery of templates: search, categories, and which connections a template still needs. */

import type { StoreRecord, TemplateRecord } from "../../api/schema";
import { CATEGORY, CONNECTION_KINDS } from "../../lib/record_words";
import { list } from "../../lib/words";

export interface TemplateFilter {
  q: string;
  category: string;
  /** The store to run on. */
  store: StoreRecord | undefined;
  /** Only templates that change nothing in a store. */
  quiet: boolean;
}

export function matching(templates: readonly TemplateRecord[], { q, category, store, quiet }: TemplateFilter): TemplateRecord[] {
  const words = q.trim().toLowerCase().split(/\s+/).filter(Boolean);
  return templates.filter((template) => {
    const text = `${template.name} ${template.description} ${template.steps.map(({ title }) => title).join(" ")}`.toLowerCase();
    return (
      words.every((word) => text.includes(word)) &&
      (!category || template.category === category) &&
      (!store || !template.platforms.length || template.platforms.includes(store.platform)) &&
      (!quiet || !template.changes_store)
    );
  });
}

/** Groups templates by category, in order; unknown categories come last, under their own names. */
export function byCategory(templates: readonly TemplateRecord[]): { category: string; words: string; templates: TemplateRecord[] }[] {
  const names = [...new Set([...Object.keys(CATEGORY), ...templates.map(({ category }) => category)])];
  return names
    .map((category) => ({
      category,
      words: CATEGORY[category] ?? category,
      templates: templates.filter((template) => template.category === category).sort((a, b) => a.name.localeCompare(b.name)),
    }))
    .filter((group) => group.templates.length);
}

/** The most popular first templates, in this order. */
const FIRST = ["hide-out-of-stock-products", "low-stock-alert", "price-update-from-spreadsheet", "tag-products-by-rule"];

export function mostUsed(templates: readonly TemplateRecord[]): TemplateRecord[] {
  return FIRST.flatMap((id) => templates.find(({ template_id }) => template_id === id) ?? []);
}

/** Returns which connections a template still needs; null if none. `channels` are the platforms that messages go to. */
export function lacks({ readiness, platforms }: TemplateRecord, channels: readonly string[] = []): string | null {
  if (readiness.ready) return null;
  const kinds = readiness.missing.map((kind) => (kind === "teams" ? channelWords(channels) : CONNECTION_KINDS[kind]?.singular ?? kind));
  if (!kinds.length && platforms.length) kinds.push(list(platforms.map((platform) => CONNECTION_KINDS[platform]?.name ?? platform)).replace(" and ", " or ") + " store");
  return kinds.length ? `Needs a ${list(kinds).replace(" and ", " or a ")}` : null;
}

/** An input named `teams` takes any connection that receives messages: "channel for messages (Microsoft Teams, Slack)". */
function channelWords(channels: readonly string[]): string {
  return channels.length ? `channel for messages (${channels.join(", ")})` : "channel for messages";
}
