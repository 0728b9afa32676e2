/** The client of Steward's Automations API. Not for browsers: it holds a secret. */
import createClient, { type Client } from "openapi-fetch";
import { refusal, StewardError, WaitTimeout } from "./errors.js";
import { IDEMPOTENT, VERSION } from "./operations.js";
import type { paths, RunRecord, StepRecord } from "./schema.js";

export * from "./errors.js";
export type * from "./schema.js";

const [TRIES, DEADLINE] = [3, 30_000];
const COMMAS = { array: { style: "form", explode: false } } as const;
const FINAL = ["succeeded", "failed", "refused", "cancelled", "expired"];
const JSON_HEADERS = { Accept: "application/json", "Content-Type": "application/json", "User-Agent": `steward-client/${VERSION}` };

const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** A key: the time in milliseconds and 80 random bits. */
function ulid(): string {
  let [time, key] = [Date.now(), ""];
  for (; key.length < 10; time = Math.floor(time / 32)) key = DIGITS[time % 32] + key;
  for (const byte of crypto.getRandomValues(new Uint8Array(16))) key += DIGITS[byte % 32];
  return key;
}

export interface Options extends Record<"clientId" | "clientSecret" | "username" | "email" | "organization", string> {
  authUrl?: string;  // address of the login where it is another one
  fetch?: typeof fetch;
  clock?: () => number;  // milliseconds that never go back, and waiting for them: for tests
  sleep?: (milliseconds: number) => Promise<void>;
}

type Token = { value: Promise<string>; endsAt: number };
type Plan = { body: string | null; key: string | undefined; mayRepeat: boolean };
interface Waiting { timeout?: number; onStep?: (step: StepRecord) => void; throughApproval?: boolean }

export class Steward {
  /** Typed calls by path, such as `steward.api.GET("/v1/automations/status")`; refusals are thrown. */
  readonly api: Client<paths>;
  readonly #options: Required<Options>;
  readonly #plans = new WeakMap<Request, Plan>();
  #token: Token | undefined;

  constructor(baseUrl: string, options: Options) {
    const base = baseUrl.replace(/\/$/, "");
    const sleep = (milliseconds: number) => new Promise<void>((done) => setTimeout(done, milliseconds));
    this.#options = { authUrl: base, fetch: (...request) => fetch(...request), clock: () => performance.now(), sleep, ...options };
    this.api = createClient<paths>({ baseUrl: base, headers: JSON_HEADERS, querySerializer: COMMAS, fetch: (request) => this.#send(request) });
    this.api.use({ onRequest: ({ request, schemaPath }) => this.#plan(request, schemaPath) });
  }

  /** A client of the address, credential and person that `STEWARD_CLIENT_URL` and the other variables name. */
  static fromEnv(env: Record<string, string | undefined>, more: Partial<Options> = {}): Steward {
    const names = ["URL", "ID", "SECRET", "USERNAME", "EMAIL", "ORGANIZATION"].map((name) => `STEWARD_CLIENT_${name}`);
    const absent = names.filter((name) => !env[name]);
    if (absent.length) throw new TypeError(`Set ${absent.join(", ")}.`);
    const [url, clientId, clientSecret, username, email, organization] = names.map((name) => env[name]!);
    return new Steward(url!, { clientId, clientSecret, username, email, organization, ...more } as Options);
  }

  /** The `data` of a response. */
  async data<T>(answer: Promise<{ data?: { data: T } }>): Promise<T> {
    const { data } = await answer;
    if (data === undefined) throw new StewardError(200, { message: "This is not a response of Steward." }, new Headers());
    return data.data;
  }

  /** The pages of a list: `read` gets the cursor and returns the `data` of one page. */
  async *pages<T extends { next_cursor: string | null }>(read: (cursor?: string) => Promise<T>): AsyncGenerator<T> {
    for (let cursor: string | null | undefined; cursor !== null;) {
      const page: T = await read(cursor);
      yield page;
      cursor = page.next_cursor;
    }
  }

  /** The run when it has ended or waits for approval; each step is told once. Throws after `timeout` seconds. */
  async waitFor(run: string | RunRecord, { timeout = 600, onStep, throughApproval = false }: Waiting = {}): Promise<RunRecord> {
    const endsAt = this.#options.clock() + timeout * 1000;
    const path = { run_id: typeof run === "string" ? run : run.id };
    for (let lastSeq = 0, pause = 1000;;) {
      const answer = this.api.GET("/v1/automations/runs/{run_id}", { params: { path, query: { after_seq: lastSeq } } });
      const current = (await this.data(answer)).run;
      for (const step of current.steps ?? []) {
        lastSeq = Math.max(lastSeq, step.seq);
        onStep?.(step);
      }
      if (current.more_steps) continue;
      if (FINAL.includes(current.status) || (current.status === "waiting_approval" && !throughApproval)) return current;
      const left = endsAt - this.#options.clock();
      if (left <= 0) throw new WaitTimeout(current);
      await this.#options.sleep(Math.min(pause, left));
      pause = Math.min(5000, pause * 1.5);
    }
  }

  /** Decides before the first try whether a call may be sent again; one by key gets a key. */
  async #plan(request: Request, path: string): Promise<void> {
    const kind = request.method === "GET" ? "yes" : (IDEMPOTENT[`${request.method} ${path}`] ?? "no");
    const body = JSON.parse((await request.clone().text()) || "{}") as { idempotency_key?: string };
    if (kind === "by_key") body.idempotency_key ??= ulid();
    const hasVersion = "version" in body || "automation_version" in body;
    const mayRepeat = kind === "yes" || kind === "by_key" || (kind === "by_version" && hasVersion);
    const hasBody = !["GET", "DELETE"].includes(request.method);
    this.#plans.set(request, { body: hasBody ? JSON.stringify(body) : null, key: body.idempotency_key, mayRepeat });
  }

  async #send(request: Request): Promise<Response> {
    const plan = this.#plans.get(request)!;
    const endsAt = this.#options.clock() + DEADLINE;
    let [isLost, hasNewToken] = [false, false];
    for (let tries = 1;; tries += 1) {
      const token = this.#login();
      const headers = new Headers(request.headers);
      headers.set("Authorization", `Bearer ${await token.value}`);
      const response = await this.#try(request.url, request.method, headers, plan.body);
      if (response.status === 401 && !hasNewToken && response.headers.get("www-authenticate")?.includes("invalid_token")) {
        [hasNewToken, tries] = [true, tries - 1];
        if (this.#token === token) this.#token = undefined;
        continue;
      }
      if (response.ok) return response;
      const error = refusal(response, await response.json().catch(() => ({})), plan.key, isLost);
      const isPassing = [0, 429, 502, 503, 504].includes(error.status) && error.code !== "not_configured";
      const wait = error.retryAfter ?? 0.5 + Math.random() * (Math.min(4, 2 ** tries) - 0.5);
      if (!isPassing || !plan.mayRepeat || tries === TRIES || this.#options.clock() + wait * 1000 > endsAt) throw error;
      isLost ||= response.status !== 429;
      await this.#options.sleep(wait * 1000);
    }
  }

  /** One request; a failure on the way is an error response. */
  #try(url: string, method: string, headers: Headers, body: string | null): Promise<Response> {
    const request = { method, headers, body, redirect: "manual", signal: AbortSignal.timeout(15_000) } as const;
    return this.#options.fetch(url, request).catch(() => Response.error());
  }

  /** The token; one login at a time, whose failure its waiting callers share. */
  #login(): Token {
    if (this.#token && this.#options.clock() < this.#token.endsAt - 60_000) return this.#token;
    const token: Token = { value: this.#newToken((endsAt) => (token.endsAt = endsAt)), endsAt: Infinity };
    token.value.catch(() => this.#token === token && (this.#token = undefined));
    return (this.#token = token);
  }

  async #newToken(endAt: (time: number) => void): Promise<string> {
    const { clientId, clientSecret, username, email, organization, authUrl } = this.#options;
    const body = { client_id: clientId, client_secret: clientSecret, username, email, organization_name: organization };
    const url = authUrl.replace(/\/$/, "") + "/v2/api/automations/login";
    const response = await this.#try(url, "POST", new Headers(JSON_HEADERS), JSON.stringify(body));
    const read = await response.json().catch(() => ({}));
    if (!response.ok) throw refusal(response, read, undefined, false);
    endAt(this.#options.clock() + read.expires_in * 1000);
    return read.access_token;
  }
}
