/** Which automations need a connection: as the service tells it before one is disconnected. */

import type { AutomationRecord } from "../../api/schema";

/** Whether an automation runs on a connection, reads it, or names it in its inputs or steps. */
export function uses(automation: AutomationRecord, id: number): boolean {
  const { integration_id, connections, inputs, bindings } = automation;
  return integration_id === id || [connections, inputs, bindings].some((part) => names(part, id));
}

function names(part: unknown, id: number): boolean {
  if (typeof part !== "object" || part === null) return false;
  return Object.entries(part).some(([name, value]) => (name.endsWith("integration_id") ? value === id : names(value, id)));
}
