/** The steps of a workflow as a layered graph, with its ports and states as text. */

import type { FindingRecord, PlanEdgeRecord, PlanStepRecord } from "../api/schema";
import { plainName, STEP_KIND } from "./record_words";
import { count, type Shape, type Tone } from "./words";

/** A plan of an import or of an automation, as the API returns it. */
export interface GraphPlan {
  steps: readonly PlanStepRecord[];
  edges: readonly PlanEdgeRecord[];
}

/** The position of a step: its layer from the top, and its index in the layer from the left. */
export interface LayerPosition {
  layer: number;
  column: number;
}

export type StepState = "fine" | "unbound" | "blocked" | "disabled";

export const STEP_STATES: Readonly<Record<StepState, { words: string; shape: Shape; tone: Tone }>> = {
  fine: { words: "Can run", shape: "tick", tone: "good" },
  unbound: { words: "Needs a connection", shape: "hand", tone: "warn" },
  blocked: { words: "Cannot run", shape: "cross", tone: "bad" },
  disabled: { words: "Switched off", shape: "bar", tone: "muted" },
};

/** With more steps, the graph is drawn only on request (docs/design/web.md#plan-graph). */
export const MAX_DRAWN = 300;

/** Returns the kind of a step as text; an unknown kind is shown by its name. */
export function kindWords(kind: string): string {
  return kind === "unsupported" ? "Not known here" : (STEP_KIND[kind] ?? plainName(kind));
}

/** Returns an output port as text; null for the only output of a step. */
export function portWords(port: string): string | null {
  const [name, number] = port.split(":");
  if (name === "out") return number === "0" ? null : `output ${Number(number) + 1}`;
  if (name === "case") return `case ${Number(number) + 1}`;
  if (name === "fallback") return "otherwise";
  if (name === "loop_body") return "loop";
  if (name === "after") return "done";
  return name ? plainName(name).toLowerCase() : null;
}

/**
 * Assigns each step a layer: one more than the highest layer of its predecessors, ignoring edges that close a cycle.
 * Within a layer, steps keep the order of the plan.
 */
export function layered(plan: GraphPlan): Map<string, LayerPosition> {
  const after = new Map<string, string[]>(plan.steps.map(({ name }) => [name, []]));
  for (const { from, to } of plan.edges) if (after.has(to)) after.get(from)?.push(to);
  const layers = new Map<string, number>();
  for (const name of forwards(plan, after)) {
    const depth = layers.get(name) ?? 0;
    layers.set(name, depth);
    for (const next of after.get(name)!) layers.set(next, Math.max(layers.get(next) ?? 0, depth + 1));
  }
  const columns: number[] = [];
  const positions = new Map<string, LayerPosition>();
  for (const { name } of plan.steps) {
    const layer = layers.get(name) ?? 0;
    const column = columns[layer] ?? 0;
    columns[layer] = column + 1;
    positions.set(name, { layer, column });
  }
  return positions;
}

/** Sorts steps topologically, and removes edges that close a cycle from `after`. */
function forwards(plan: GraphPlan, after: Map<string, string[]>): string[] {
  const order: string[] = [];
  const state = new Map<string, "open" | "done">();
  for (const { name } of plan.steps) {
    if (state.has(name)) continue;
    const path: { name: string; targets: string[]; kept: string[] }[] = [];
    const enter = (name: string) => {
      state.set(name, "open");
      path.push({ name, targets: [...new Set(after.get(name))], kept: [] });
    };
    enter(name);
    while (path.length) {
      const top = path.at(-1)!;
      const next = top.targets.shift();
      if (next === undefined) {
        state.set(top.name, "done");
        after.set(top.name, top.kept);
        order.push(top.name);
        path.pop();
      } else if (state.get(next) !== "open") {
        top.kept.push(next);
        if (!state.has(next)) enter(next);
      }
    }
  }
  return order.reverse();
}

/** Returns the state of a step, the most severe first: cannot run, switched off, no connection. */
export function stateOf(name: string, supported: boolean, issues: readonly FindingRecord[], unbound: ReadonlySet<string>): StepState {
  const stepIssues = issues.filter(({ step }) => step === name);
  // A step that is switched off or never reached does not prevent the workflow from running.
  if (stepIssues.some(({ code }) => code === "disabled_step")) return "disabled";
  if (stepIssues.some(({ level }) => level === "error") || !supported) return "blocked";
  return unbound.has(name) ? "unbound" : "fine";
}

/** Returns the outgoing edges of a step: `true → Log`. */
export function waysOut(plan: GraphPlan, name: string): { port: string | null; to: string }[] {
  return plan.edges.filter(({ from }) => from === name).map(({ port, to }) => ({ port: portWords(port), to }));
}

/** Says which pending runs changed bindings would discard (docs/design/web.md#automation); null if there are none. */
export function setAside(runs: readonly { status: string }[]): string | null {
  const of = (status: string) => runs.filter((run) => run.status === status).length;
  const parts = [of("queued") ? `${count(of("queued"), "run")} waiting to start` : "", of("waiting_approval") ? count(of("waiting_approval"), "approval") : ""];
  const words = parts.filter(Boolean).join(" and ");
  return words ? `${words[0]!.toUpperCase()}${words.slice(1)} will be discarded, because the steps are no longer the ones they were about.` : null;
}
