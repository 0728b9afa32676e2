/** What the gallery and the wizard read; one response has the whole list of templates. */

import { prefetch } from "../../api/cache.svelte";
import type { RouteLocation } from "../../router.svelte";

const ALL = { query: { limit: 200 } };
export const SETUP_CALLS = {
  templates: ["/v1/automations/templates", ALL] as const,
  stores: ["/v1/automations/stores", ALL] as const,
  connections: ["/v1/automations/connections", ALL] as const,
};

export function prefetchGallery(): void {
  prefetch(...SETUP_CALLS.templates);
  prefetch(...SETUP_CALLS.stores);
}

export function prefetchSetup({ params }: RouteLocation): void {
  prefetch("/v1/automations/templates/{template_id}", { params: { template_id: params.template! } });
  prefetch(...SETUP_CALLS.stores);
  prefetch(...SETUP_CALLS.connections);
}
