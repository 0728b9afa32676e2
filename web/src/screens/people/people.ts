/** Which roles and memberships can be changed: the last owner stays (docs/design/api/organization.md#people). */

import type { PersonRecord } from "../../api/schema";

export function nameOf({ first_name, last_name, email }: PersonRecord): string {
  return `${first_name} ${last_name}`.trim() || email;
}

/** Says why a person's role or membership cannot be changed; null if it can. */
export function lastOwnerReason(person: PersonRecord, people: readonly PersonRecord[], complete: boolean): string | null {
  if (person.role !== "owner" || person.state !== "active" || !complete) return null;
  const owners = people.filter(({ role, state }) => role === "owner" && state === "active");
  return owners.length > 1 ? null : "The last owner stays. Make somebody else an owner first.";
}

/** Sorts people: members first, then invited ones, then former ones; by name. */
export function inOrder(people: readonly PersonRecord[]): PersonRecord[] {
  const states = ["active", "invited", "deactivated"];
  return [...people].sort((a, b) => states.indexOf(a.state) - states.indexOf(b.state) || nameOf(a).localeCompare(nameOf(b)));
}
