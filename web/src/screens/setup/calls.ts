/** What the gallery and the wizard read; a whole list of templates is one answer. */

import { prefetch } from "../../api/cache.svelte";
import type { Place } from "../../router.svelte";

const ALL = { query: { limit: 200 } };
export const asked = {
  templates: ["/v1/automations/templates", ALL] as const,
  stores: ["/v1/automations/stores", ALL] as const,
  connections: ["/v1/automations/connections", ALL] as const,
};

export function startGallery(): void {
  prefetch(...asked.templates);
  prefetch(...asked.stores);
}

export function startSetup({ params }: Place): void {
  prefetch("/v1/automations/templates/{template_id}", { params: { template_id: params.template! } });
  prefetch(...asked.stores);
  prefetch(...asked.connections);
}
