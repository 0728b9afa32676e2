/** The report on an import: findings by level, the number of steps that cannot run, and the verdict. */

import type { FindingRecord } from "../../api/schema";
import { count, list, type Shown } from "../../lib/words";
import type { Source } from "./reading";

const MAX_NAMED = 5;

export interface Group {
  level: string;
  title: string;
  shown: Shown;
  findings: readonly FindingRecord[];
}

const LEVELS: readonly [string, string, Shown][] = [
  ["error", "Cannot run", { words: "Cannot run", shape: "cross", tone: "bad" }],
  ["warning", "Runs, but differs", { words: "Differs", shape: "hand", tone: "warn" }],
  ["note", "Good to know", { words: "Note", shape: "dot", tone: "info" }],
];

/** Groups findings by level, the most severe first; empty levels are left out. */
export function byLevel(issues: readonly FindingRecord[]): Group[] {
  return LEVELS.map(([level, title, shown]) => ({ level, title, shown, findings: issues.filter((issue) => issue.level === level) })).filter(
    ({ findings }) => findings.length,
  );
}

/** Returns the steps that prevent it from running. */
export function blocked(issues: readonly FindingRecord[]): string[] {
  return [...new Set(issues.filter(({ level }) => level === "error").flatMap(({ step }) => step ?? []))];
}

/** Returns how many of the steps a run executes, and the trigger that they follow. */
export interface Reach {
  runs: number;
  steps: number;
  start: string | null;
}

/**
 * Returns the verdict: "Can run", how many steps run, or how many cannot. With `source`, it applies to no particular
 * store: a Shopify flow gets a tick only if the organization has a Shopify store.
 */
export function verdict(issues: readonly FindingRecord[], reach?: Reach, source?: string, hasShopify = true): Shown {
  if (!issues.some(({ level }) => level === "error")) {
    const isFlow = source === ("store_flow" satisfies Source);
    const whole = isFlow ? "Can run on a Shopify store" : "Can run";
    const words = reach && reach.runs < reach.steps ? `Runs ${reach.runs} of ${count(reach.steps, "step")}` : whole;
    return isFlow && !hasShopify ? { words, shape: "circle", tone: "muted" } : { words, shape: "tick", tone: "good" };
  }
  const steps = blocked(issues).length;
  return { words: steps ? `${count(steps, "step")} cannot run` : "Cannot run", shape: "cross", tone: "bad" };
}

/** Returns the verdict by store: "Can run on Leaf & Co; not on Northwind Tea (1 step)"; null if all can run it. */
export function onStores(stores: readonly { name: string; missing: readonly FindingRecord[] }[]): Shown | null {
  const lacking = stores.filter(({ missing }) => missing.length);
  if (!lacking.length) return null;
  const fit = stores.filter(({ missing }) => !missing.length).map(({ name }) => name);
  const lacks = lacking.map(({ name, missing }) => `${name} (${count(new Set(missing.map(({ step }) => step)).size, "step")})`);
  const words = `Can run on ${fit.length ? list(fit) : "a Shopify store"}; not on ${list(lacks)}`;
  return fit.length ? { words, shape: "tick", tone: "good" } : { words, shape: "cross", tone: "bad" };
}

/** Returns the errors that only the chosen store causes. */
export function lackingOf(issues: readonly FindingRecord[], onStore: readonly FindingRecord[]): FindingRecord[] {
  const fromImport = new Set(issues.map((issue) => JSON.stringify(issue)));
  return onStore.filter((issue) => issue.level === "error" && !fromImport.has(JSON.stringify(issue)));
}

/** Returns the errors that all stores share; empty without stores. */
export function lackingEverywhere(stores: readonly { missing: readonly FindingRecord[] }[]): FindingRecord[] {
  const [first, ...others] = stores;
  return (first?.missing ?? []).filter(({ step }) => others.every(({ missing }) => missing.some((issue) => issue.step === step)));
}

/** Says why no automation can be created, naming the steps; null if one can. */
export function whyNot(issues: readonly FindingRecord[]): string | null {
  if (!issues.some(({ level }) => level === "error")) return null;
  const names = blocked(issues);
  if (!names.length) return issues.find(({ level }) => level === "error")!.message;
  const more = names.length > MAX_NAMED ? [`${names.length - MAX_NAMED} more`] : [];
  return `Cannot run: ${list([...names.slice(0, MAX_NAMED), ...more])}. Repair this in the tool it comes from and import it again.`;
}

/** Counts findings: "2 errors, 1 warning"; empty without either. */
export function counted(issues: readonly FindingRecord[]): string {
  const of = (level: string) => issues.filter((issue) => issue.level === level).length;
  const parts = [
    [of("error"), "error"],
    [of("warning"), "warning"],
  ] as const;
  return parts.filter(([number]) => number).map(([number, one]) => count(number, one)).join(", ");
}

/** Splits a message into its first sentence, the problem, and the rest, what to do. */
export function foundAndToDo(message: string): [string, string] {
  const end = /[.!?](?=\s+\S)/.exec(message);
  if (!end) return [message, ""];
  return [message.slice(0, end.index + 1), message.slice(end.index + 1).trim()];
}
