/** Who is signed in, what they may do, and what happens when the session ends under an open page. */

import type { SessionWire } from "./schema";
import { forgetAll, refreshShown } from "./cache.svelte";
import { call, observeCalls, Refused } from "./client";
import { online } from "./online.svelte";

export type Role = "member" | "approver" | "owner";
export type Scope = "read" | "write" | "approve";

const SIGNED_IN = "steward-in";

class Session {
  /** Undefined until the first answer; null when nobody is signed in. */
  current = $state.raw<SessionWire | null>();
  /** The session ended while a page is open: the sign-in is shown above it. */
  ended = $state(false);
  /** The service could not be asked at the start. */
  refused = $state.raw<Refused>();
  #waiting: ((same: boolean) => void)[] = [];
  #csrf = "";

  constructor() {
    observeCalls({
      csrf: () => this.#csrf,
      signedOut: () => this.#signedOut(),
      reached: () => online.found(),
      slowed: (seconds, signal) => online.slowDown(seconds, signal),
      away: () => online.lost(),
    });
    online.onAgain(() => void this.#askAgain());
  }

  get role(): Role | null {
    return (this.current?.organization?.role as Role | undefined) ?? null;
  }

  /** Whether somebody was signed in here before: only then calls go out before the session is known. */
  get likely(): boolean {
    return localStorage.getItem(SIGNED_IN) !== null;
  }

  may(scope: Scope): boolean {
    return this.current?.scopes.includes(`automations:${scope}`) ?? false;
  }

  /** Asks who is signed in; at the start, and when the service is back. */
  async load(): Promise<void> {
    try {
      this.current = (await call("get", "/app/session")).session;
      this.#csrf = this.current.csrf_token;
      localStorage.setItem(SIGNED_IN, "");
      this.refused = undefined;
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
      if (fault.status === 401) {
        this.current = null;
        localStorage.removeItem(SIGNED_IN);
        this.refused = undefined;
      } else this.refused = fault;
    }
  }

  /** Signs in; over an open page also into the organization it belongs to. Throws Refused. */
  async signIn(email: string, password: string): Promise<void> {
    let next = (await call("post", "/app/session", { body: { email, password } })).session;
    const before = this.current;
    const open = this.ended && before?.user.id === next.user.id ? before?.organization?.id : undefined;
    if (open !== undefined && next.organization?.id !== open && next.organizations.some(({ id }) => id === open)) {
      this.#csrf = next.csrf_token;
      const body = { organization_id: open };
      next = (await call("post", "/app/session/organization", { body })).session;
    }
    this.take(next);
  }

  /** Works in another organization. Throws Refused. */
  async choose(organization: number): Promise<void> {
    const body = { organization_id: organization };
    this.take((await call("post", "/app/session/organization", { body })).session);
  }

  /** Takes the session a sign-in, a choice or a new password answered with. */
  take(next: SessionWire): void {
    const before = this.current;
    const same = before?.user.id === next.user.id && before?.organization?.id === next.organization?.id;
    if (!same) forgetAll();
    this.current = next;
    this.#csrf = next.csrf_token;
    localStorage.setItem(SIGNED_IN, "");
    const waiting = this.#waiting;
    this.#waiting = [];
    if (this.ended) {
      this.ended = false;
      // Another person starts again: nothing the one before had on the page stays.
      if (before && !same) location.assign("/");
    }
    refreshShown(true);
    for (const resolve of waiting) resolve(same);
  }

  async signOut(): Promise<void> {
    await call("delete", "/app/session");
    localStorage.removeItem(SIGNED_IN);
    // A page loaded again holds nothing of the person who left.
    location.assign("/sign-in");
  }

  #signedOut(): Promise<boolean> {
    if (!this.current) return Promise.resolve(false);
    this.ended = true;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  async #askAgain(): Promise<void> {
    if (this.current === undefined) await this.load();
    else await call("get", "/app/session", undefined, { poll: true }).catch(() => undefined);
    if (!online.away) refreshShown(true);
  }
}

export const session = new Session();
