/** The requests of the import screens, also sent while their code loads. */

import { prefetch } from "../../api/cache.svelte";
import type { Place } from "../../router.svelte";

export const LISTED = { query: { limit: 200 } } as const;

export function startImports(): void {
  prefetch("/v1/automations/imports", LISTED);
  prefetch("/v1/automations/status");
}

export function startImport({ params }: Place): void {
  prefetch("/v1/automations/imports/{import_id}", { params: { import_id: params.id! } });
}
