/** The context that the fields of a form share: messages by path, and facts about the automation. */

import { getContext, setContext } from "svelte";

export interface FormWorld {
  /** The messages at a path of the request. */
  at(path: string): readonly string[];
  /** The spreadsheet account that is read, where the form asks for a place in it. */
  readonly place: number | null;
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

/** Puts the focus at the first field with a message; false when there is none. */
export function focusFault(within: Element | undefined): boolean {
  const fault = within?.querySelector<HTMLElement>('[aria-invalid="true"], [data-fault], .problems');
  // Beside the message of several inputs, such as choices, one of them.
  const field = fault?.matches(".problems") ? firstInput(fault.parentElement) : fault;
  field?.focus();
  return Boolean(field) && document.activeElement === field;
}

/** Of radio buttons the one that is checked: it alone is in the order of the Tab key. */
function firstInput(group: Element | null): HTMLElement | undefined {
  const inputs = [...(group?.querySelectorAll<HTMLElement>("input, select, textarea, button") ?? [])].filter((input) => !input.matches(":disabled"));
  return inputs.find((input) => input.matches("[type=radio]:checked")) ?? inputs[0];
}

/** The number typed into a field; undefined if empty, NaN for other text. */
export function numberTyped(typed: unknown): number | undefined {
  if (typed === "" || typed === null || typed === undefined) return undefined;
  return Number(typed);
}
