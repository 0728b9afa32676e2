/** The context that the fields of a form share: messages by path, and facts about the automation. */

import { getContext, setContext } from "svelte";

export interface FormWorld {
  /** Returns the messages at a path of the request. */
  at(path: string): readonly string[];
  /** The spreadsheet account for fields that choose a spreadsheet or tab. */
  readonly spreadsheetAccount: number | null;
  /** Connections that are not offered, such as the store the automation runs on. */
  readonly without: readonly number[];
}

const KEY = Symbol("form");

export function shareForm(world: FormWorld): void {
  setContext(KEY, world);
}

export function sharedForm(): FormWorld {
  return getContext<FormWorld>(KEY);
}

/** Focuses the first field with a message; returns false if there is none. */
export function focusFault(within: Element | undefined): boolean {
  const fault = within?.querySelector<HTMLElement>('[aria-invalid="true"], [data-fault], .problems');
  // If the message belongs to a group, such as radio buttons, focuses one of its inputs.
  const field = fault?.matches(".problems") ? firstInput(fault.parentElement) : fault;
  field?.focus();
  return Boolean(field) && document.activeElement === field;
}

/** Of radio buttons only the checked one is in the tab order. */
function firstInput(group: Element | null): HTMLElement | undefined {
  const inputs = [...(group?.querySelectorAll<HTMLElement>("input, select, textarea, button") ?? [])].filter((input) => !input.matches(":disabled"));
  return inputs.find((input) => input.matches("[type=radio]:checked")) ?? inputs[0];
}

/** Parses the number typed into a field: undefined if empty, NaN for other text. */
export function numberTyped(typed: unknown): number | undefined {
  if (typed === "" || typed === null || typed === undefined) return undefined;
  return Number(typed);
}
