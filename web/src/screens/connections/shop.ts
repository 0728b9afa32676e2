/** Going to a shop's own page that issues keys, and what is remembered until the browser is back. */

import { call } from "../../api/client";
import { now } from "../../lib/clock.svelte";

const STORAGE_KEY = "steward-at-shop";

interface ShopChoice {
  url: string;
  name: string;
  integration_id?: number;
}

/** What was begun, in this tab. */
export interface Begun {
  name: string;
  at: number;
}

export async function goToShop(body: ShopChoice): Promise<void> {
  const { authorize_url } = await call("post", "/app/connections/woocommerce/authorize", { body });
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ name: body.name, at: now() } satisfies Begun));
  location.assign(authorize_url);
}

export function begun(): Begun | null {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null") as Begun | null;
  } catch {
    return null;
  }
}
