/** Explains which role an action needs and who has it, for disabled buttons. */

import { watch } from "../api/cache.svelte";
import { type Role, session } from "../api/session.svelte";
import { list, REFUSALS } from "./words";

const RANKS: Record<Role, number> = { member: 0, approver: 1, owner: 2 };
const MAX_NAMES = 3;

/** Returns why a role is missing, or null if the person has it; call it while a component is created. */
export function roleReasons() {
  const lacks = (needed: Role) => session.role !== null && RANKS[session.role] < RANKS[needed];
  const people = watch(() => (session.role !== null && lacks("owner") ? ["/app/people", { query: { limit: 200 } }] : null));
  return (needed: Exclude<Role, "member">): string | null => {
    if (!lacks(needed)) return null;
    const words = needed === "owner" ? REFUSALS.owners_only : REFUSALS.approvers_only;
    const able = (people.current?.data?.people ?? []).filter(
      ({ role, state }) => state === "active" && RANKS[role as Role] >= RANKS[needed],
    );
    const names = able.slice(0, MAX_NAMES).map(({ first_name, last_name }) => `${first_name} ${last_name}`);
    return names.length ? `${words} Ask ${names.length > 1 ? "one of: " : ""}${list(names)}.` : words;
  };
}
