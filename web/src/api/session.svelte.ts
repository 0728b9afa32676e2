/** The session: who is signed in, with which permissions, and signing in again after the session expires. */

import type { SessionWire } from "./schema";
import { clearCache, refreshShown } from "./cache.svelte";
import { call, observeCalls, Refused } from "./client";
import { online } from "./online.svelte";

export type Role = "member" | "approver" | "owner";
export type Scope = "read" | "write" | "approve";

const SIGNED_IN = "steward-in";

class Session {
  /** Undefined until the first response; null if nobody is signed in. */
  current = $state.raw<SessionWire | null>();
  /** The session expired while a page is open: the sign-in form is shown above it. */
  ended = $state(false);
  /** Why the session could not be loaded at the start. */
  refused = $state.raw<Refused>();
  #waiting: ((same: boolean) => void)[] = [];
  #csrf = "";

  constructor() {
    observeCalls({
      csrf: () => this.#csrf,
      signedOut: () => this.#signedOut(),
      reached: () => online.markReachable(),
      rateLimited: (seconds, signal) => online.waitForRateLimit(seconds, signal),
      unreachable: () => online.markUnreachable(),
    });
    online.onRetry(() => void this.#retry());
  }

  get role(): Role | null {
    return (this.current?.organization?.role as Role | undefined) ?? null;
  }

  /** Whether somebody signed in here before: only then requests are sent before the session has loaded. */
  get likely(): boolean {
    return localStorage.getItem(SIGNED_IN) !== null;
  }

  may(scope: Scope): boolean {
    return this.current?.scopes.includes(`automations:${scope}`) ?? false;
  }

  /** Loads the session, at the start and after an outage. */
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

  /** Signs in; if a session expired under an open page, into that page's organization. Throws Refused. */
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

  /** Switches to another organization. Throws Refused. */
  async choose(organization: number): Promise<void> {
    const body = { organization_id: organization };
    this.take((await call("post", "/app/session/organization", { body })).session);
  }

  /** Stores the session from the response to a sign-in, a switch of organization or a new password. */
  take(next: SessionWire): void {
    const before = this.current;
    const same = before?.user.id === next.user.id && before?.organization?.id === next.organization?.id;
    if (!same) clearCache();
    this.current = next;
    this.#csrf = next.csrf_token;
    localStorage.setItem(SIGNED_IN, "");
    const waiting = this.#waiting;
    this.#waiting = [];
    if (this.ended) {
      this.ended = false;
      // Another person signed in: the page is reloaded so that nothing of the previous person stays.
      if (before && !same) location.assign("/");
    }
    refreshShown(true);
    for (const resolve of waiting) resolve(same);
  }

  async signOut(): Promise<void> {
    await call("delete", "/app/session");
    localStorage.removeItem(SIGNED_IN);
    // Reloads the page, so that it holds nothing of the person who signed out.
    location.assign("/sign-in");
  }

  #signedOut(): Promise<boolean> {
    if (!this.current) return Promise.resolve(false);
    this.ended = true;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  async #retry(): Promise<void> {
    if (this.current === undefined) await this.load();
    else await call("get", "/app/session", undefined, { poll: true }).catch(() => undefined);
    if (!online.isUnreachable) refreshShown(true);
  }
}

export const session = new Session();
