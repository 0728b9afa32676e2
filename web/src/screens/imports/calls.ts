/** The requests of the import screens, also sent while their code loads. */

import { prefetch } from "../../api/cache.svelte";
import type { RouteLocation } from "../../router.svelte";

export const LISTED = { query: { limit: 200 } } as const;

export function prefetchImports(): void {
  prefetch("/v1/automations/imports", LISTED);
  prefetch("/v1/automations/status");
}

export function prefetchImport({ params }: RouteLocation): void {
  prefetch("/v1/automations/imports/{import_id}", { params: { import_id: params.id! } });
}
