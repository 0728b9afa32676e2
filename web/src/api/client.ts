/** The only API client: typed requests, refusals, waiting after a 429. Screens never call fetch. */

import type { Refusal, paths } from "./schema";

type Method = "get" | "post" | "patch" | "delete";
/** The paths that support this method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends { responses: unknown } ? P : never;
}[keyof paths];

type Operation<M extends Method, P extends PathOf<M>> = paths[P][M];
type Parameters<O> = O extends { parameters: infer A } ? A : never;
type QueryOf<O> = Parameters<O> extends { query?: infer Q } ? Exclude<Q, undefined> : never;
type ParamsOf<O> = Parameters<O> extends { path: infer V } ? V : never;
type BodyOf<O> = O extends { requestBody?: { content: { "application/json": infer B } } } ? B : never;
type Json<R> = R extends { content: { "application/json": { data: infer D } } } ? D : never;
type Responses<O> = O extends { responses: infer R } ? R : never;

/** The `data` of an operation's response. */
export type Data<M extends Method, P extends PathOf<M>> = Json<
  Responses<Operation<M, P>>[keyof Responses<Operation<M, P>> & (200 | 201)]
>;

/** The arguments of an operation: path parameters, query and body. */
export type Args<M extends Method, P extends PathOf<M>> = ([ParamsOf<Operation<M, P>>] extends [never]
  ? { params?: undefined }
  : { params: ParamsOf<Operation<M, P>> }) &
  ([QueryOf<Operation<M, P>>] extends [never] ? { query?: undefined } : { query?: QueryOf<Operation<M, P>> }) &
  ([BodyOf<Operation<M, P>>] extends [never] ? { body?: undefined } : { body?: BodyOf<Operation<M, P>> });

/** The body of a refusal: a 422 has `errors`, a stale version has `data`. */
type RefusalBody = Partial<Refusal> & { errors?: Record<string, string[]>; data?: Record<string, unknown> };

export interface CallOptions {
  /** Sent by the page, not by the person: it does not keep the session alive. */
  poll?: boolean;
  signal?: AbortSignal;
}

/** `offline` is set by this client when no response arrived. All other codes come from the service. */
export type Code = NonNullable<Refusal["code"]> | "offline";

/** A refused or failed request. Nothing was changed, unless `code` is offline or unavailable. */
export class Refused extends Error {
  readonly status: number;
  readonly code: Code;
  /** Messages by the path of their field. */
  readonly errors: Readonly<Record<string, string[]>>;
  readonly data: Readonly<Record<string, unknown>>;
  readonly requestId: string | null;
  /** Seconds to wait before repeating the request; null if the service named none. */
  readonly retryAfter: number | null;

  constructor(status: number, body: RefusalBody, headers?: Headers) {
    super(body.message ?? "The service sent a response that could not be read.");
    this.status = status;
    this.code = body.code ?? "internal";
    this.errors = body.errors ?? {};
    this.data = body.data ?? {};
    this.requestId = headers?.get("x-request-id") ?? null;
    const seconds = Number(headers?.get("retry-after"));
    this.retryAfter = seconds > 0 ? seconds : null;
  }

  /** Whether the service was unreachable: shown in the top bar, and retried automatically. */
  get isUnreachable(): boolean {
    return this.code === "offline" || this.code === "unavailable" || this.status === 502 || this.status === 504;
  }
}

/** Is notified of every request, for the session and the top bar; set once by session.svelte.ts. */
export interface CallObserver {
  csrf(): string;
  /** Resolves to true once the same person has signed in again; the request is then repeated. */
  signedOut(): Promise<boolean>;
  reached(): void;
  /** Resolves after `seconds`, or when the request is aborted. */
  rateLimited(seconds: number, signal: AbortSignal): Promise<void>;
  unreachable(): void;
}

let observer: CallObserver = { csrf: () => "", signedOut: async () => false, reached() {}, rateLimited: async () => {}, unreachable() {} };

export function observeCalls(callObserver: CallObserver): void {
  observer = callObserver;
}

/**
 * Calls an operation. Throws Refused; an aborted call throws the signal's reason. A read with a signal is repeated
 * after the wait that a 429 asks for.
 */
export async function call<M extends Method, P extends PathOf<M>>(
  method: M,
  path: P,
  args?: Args<M, P>,
  options: CallOptions = {},
): Promise<Data<M, P>> {
  const target = address(path, args?.params, args?.query);
  for (let isRepeated = false; ; ) {
    try {
      return (await send(method, target, args?.body, options)) as Data<M, P>;
    } catch (fault) {
      if (method === "get" && options.signal && fault instanceof Refused && fault.code === "rate_limited") {
        await observer.rateLimited(fault.retryAfter ?? 1, options.signal);
        options.signal.throwIfAborted();
        continue;
      }
      // A refused request changed nothing, so it is repeated after the person has signed in again.
      const ended = fault instanceof Refused && fault.code === "unauthenticated" && path !== "/app/session";
      if (isRepeated || !ended || !(await observer.signedOut())) throw fault;
      isRepeated = true;
    }
  }
}

/** Ends a person's digests, using the address from one of them; works without a session. Throws Refused. */
export async function endDigests(token: string): Promise<void> {
  await send("post", `/unsubscribe/${encodeURIComponent(token)}`, {}, {});
}

async function send(method: Method, target: string, body: unknown, options: CallOptions): Promise<unknown> {
  const headers: Record<string, string> = {};
  if (options.poll) headers["X-Steward-Poll"] = "1";
  if (method !== "get") {
    headers["X-CSRF-Token"] = observer.csrf();
    headers["Content-Type"] = "application/json";
  }
  let response: Response;
  let read: unknown;
  try {
    response = await fetch(target, {
      method: method.toUpperCase(),
      headers,
      body: method === "get" || method === "delete" ? null : JSON.stringify(body ?? {}),
      signal: options.signal ?? null,
      credentials: "same-origin",
      redirect: "error",
    });
    read = await response.json();
  } catch (fault) {
    if (options.signal?.aborted) throw fault;
    observer.unreachable();
    throw new Refused(0, { code: "offline" as never, message: "The service cannot be reached." });
  }
  if (response.ok) {
    observer.reached();
    return (read as { data: unknown }).data;
  }
  const refused = new Refused(response.status, read as RefusalBody, response.headers);
  if (refused.isUnreachable) observer.unreachable();
  else observer.reached();
  throw refused;
}

/** The address of a call: `{name}` filled in, lists joined by commas, absent values omitted. */
export function address(path: string, params: unknown, query: unknown): string {
  const values = (params ?? {}) as Record<string, string | number>;
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries((query ?? {}) as Record<string, unknown>)) {
    if (value === undefined || value === null || (Array.isArray(value) && !value.length)) continue;
    parameters.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  const search = parameters.toString();
  return search ? `${filled}?${search}` : filled;
}
