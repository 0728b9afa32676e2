/** The router: maps addresses to screens, navigates, and asks before unsaved text is lost. */

import type { Component } from "svelte";
import pages from "./pages.json";

export type PageName = keyof typeof pages;
export type Params = Readonly<Record<string, string>>;

/** A matched address, as screens receive it. */
export interface RouteLocation {
  page: PageName;
  params: Params;
  query: URLSearchParams;
}

/** The component of a screen; most do not use `route`. */
export type Screen = Component<{ route: RouteLocation }> | Component<Record<string, never>>;

export interface RouteRecord {
  /** Loads the screen's code on demand. */
  screen: () => Promise<{ default: Screen }>;
  /** Sends the screen's first requests before its code has loaded. */
  prefetch?: (route: RouteLocation) => void;
  /** The screen needs no session and is shown without the frame. */
  isPublic?: boolean;
}

const patterns = (Object.entries(pages) as [PageName, string][]).map(([page, address]) => {
  const names = [...address.matchAll(/:(\w+)/g)].map(([, name]) => name!);
  const fixed = address.split("/").filter((part) => part && !part.startsWith(":")).length;
  return { page, names, fixed, pattern: new RegExp(`^${address.replace(/:\w+/g, "([A-Za-z0-9._-]{1,80})")}$`) };
});
// Fixed parts win over parameters: "/automations/new" matches before "/automations/:id".
patterns.sort((a, b) => b.fixed - a.fixed);

/** Returns the page and parameters of an address, or null if no page matches. */
export function matchRoute(pathname: string, search = ""): RouteLocation | null {
  for (const { page, names, pattern } of patterns) {
    const match = pattern.exec(pathname);
    if (!match) continue;
    const params = Object.fromEntries(names.map((name, index) => [name, match[index + 1]!]));
    return { page, params, query: new URLSearchParams(search) };
  }
  return null;
}

type Query = Record<string, string | number | boolean | null | undefined>;

/** Returns the address of a page with its parameters filled in; empty query values are left out. */
export function address(page: PageName, params: Record<string, string | number> = {}, query: Query = {}): string {
  const path = pages[page].replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(params[name])));
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString();
  return search ? `${path}?${search}` : path;
}

/** Called before another screen opens; resolves to false to stay. */
type Guard = () => Promise<boolean>;

class Router {
  currentRoute = $state.raw<RouteLocation | null>(matchRoute(location.pathname, location.search));
  #routes: Partial<Record<PageName, RouteRecord>> = {};
  #guards = new Set<Guard>();
  #currentAddress = location.href;

  /** Stores the routes, and handles clicks on links and the browser's back and forward buttons. */
  start(routes: Partial<Record<PageName, RouteRecord>>): void {
    this.#routes = routes;
    addEventListener("popstate", () => void this.#handlePopState());
    document.addEventListener("click", (event) => this.#handleClick(event));
    for (const eventName of ["pointerover", "focusin"]) {
      document.addEventListener(eventName, (event) => this.#preloadLinked(event), { passive: true });
    }
  }

  record(page: PageName): RouteRecord | undefined {
    return this.#routes[page];
  }

  /** Opens an address of the app. With `replace` (filters), the back button leaves the screen, not the filter. */
  async go(target: string, { replace = false, keepFocus = false } = {}): Promise<void> {
    const url = new URL(target, location.href);
    if (url.pathname !== location.pathname && !(await this.#mayLeave())) return;
    history[replace ? "replaceState" : "pushState"]({}, "", url);
    this.#updateRoute();
    if (!replace && !keepFocus) scrollTo(0, 0);
  }

  /** Adds a guard that runs before another screen opens, for unsaved text. Returns the function that removes it. */
  guard(guard: Guard): () => void {
    this.#guards.add(guard);
    const leaving = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", leaving);
    return () => {
      this.#guards.delete(guard);
      removeEventListener("beforeunload", leaving);
    };
  }

  /** Handles back and forward: while a guard asks the person, the previous address is restored. */
  async #handlePopState(): Promise<void> {
    if (this.#guards.size && new URL(this.#currentAddress).pathname !== location.pathname) {
      history.pushState({}, "", this.#currentAddress);
      if (!(await this.#mayLeave())) return;
      this.#guards.clear();
      history.back();
      return;
    }
    this.#updateRoute();
  }

  async #mayLeave(): Promise<boolean> {
    for (const guard of this.#guards) if (!(await guard())) return false;
    return true;
  }

  #updateRoute(): void {
    this.#currentAddress = location.href;
    this.currentRoute = matchRoute(location.pathname, location.search);
    if (this.currentRoute) this.#routes[this.currentRoute.page]?.prefetch?.(this.currentRoute);
  }

  #link(event: Event): URL | null {
    const link = (event.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
    if (!link || link.target || link.download || link.origin !== location.origin) return null;
    return new URL(link.href);
  }

  #handleClick(event: MouseEvent): void {
    const url = this.#link(event);
    if (!url || event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || !matchRoute(url.pathname)) return;
    if (url.hash && url.pathname === location.pathname) return;
    event.preventDefault();
    void this.go(url.href);
  }

  /** Loads a screen's code when the pointer or the focus reaches a link to it. */
  #preloadLinked(event: Event): void {
    const url = this.#link(event);
    const target = url && matchRoute(url.pathname);
    if (target) void this.#routes[target.page]?.screen().catch(() => undefined);
  }
}

export const router = new Router();
