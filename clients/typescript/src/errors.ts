/** Errors of the client: one class for each code that a program acts on. */
import type { RunRecord, StaleData } from "./schema.js";

type Refusal = { code?: string; message?: string; errors?: Record<string, string[]>; data?: StaleData };

/** A call that did not succeed; `status` is 0 where no response came. */
export class StewardError extends Error {
  readonly code: string;
  readonly requestId: string | null;
  readonly errors: Readonly<Record<string, string[]>>;  // messages by the path of a field
  readonly current: StaleData | undefined;  // of a stale version
  readonly retryAfter: number | null;  // seconds

  constructor(readonly status: number, body: Refusal, headers: Headers, readonly idempotencyKey?: string) {
    super(body.message ?? (status ? `The service answered ${status} without words.` : "No response came, or it was lost."));
    this.name = new.target.name;
    this.code = body.code ?? "";
    this.requestId = headers.get("x-request-id");
    this.errors = body.errors ?? {};
    this.current = body.data;
    const wait = headers.get("retry-after") ?? "";
    this.retryAfter = /^\d+$/.test(wait) ? Number(wait) : null;
  }
}

export class NoResponse extends StewardError {}  // the service cannot be reached, or its response was lost
export class Malformed extends StewardError {}
export class Unauthenticated extends StewardError {}
export class InvalidCredentials extends Unauthenticated {}
export class Forbidden extends StewardError {}
export class NotFound extends StewardError {}
export class Conflict extends StewardError {}
export class StaleVersion extends Conflict {}
export class OutcomeUnknown extends StaleVersion {}  // a response was lost, and this call or another moved the version on
export class WrongState extends Conflict {}
export class TooLarge extends StewardError {}
export class ValidationFailed extends StewardError {}
export class AllowanceSpent extends ValidationFailed {}
export class NotConnected extends ValidationFailed {}
export class ClosedPeriod extends ValidationFailed {}
export class NotReady extends ValidationFailed {}
export class KeyReused extends ValidationFailed {}
export class TooManyWaiting extends ValidationFailed {}
export class RateLimited extends StewardError {}
export class InternalError extends StewardError {}
export class Unavailable extends StewardError {}
export class NotConfigured extends Unavailable {}

const KINDS: Record<string, typeof StewardError> = {
  malformed: Malformed, unauthenticated: Unauthenticated, invalid_credentials: InvalidCredentials, forbidden: Forbidden,
  not_found: NotFound, stale_version: StaleVersion, wrong_state: WrongState, too_large: TooLarge, validation_failed: ValidationFailed,
  allowance_spent: AllowanceSpent, not_connected: NotConnected, closed_period: ClosedPeriod, not_ready: NotReady, key_reused: KeyReused,
  too_many_waiting: TooManyWaiting, rate_limited: RateLimited, internal: InternalError, unavailable: Unavailable, not_configured: NotConfigured,
  0: NoResponse, 400: Malformed, 401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Conflict, 413: TooLarge, 422: ValidationFailed,
  429: RateLimited, 500: InternalError, 502: Unavailable, 503: Unavailable, 504: Unavailable,
};

/** The error of a refusal; an unknown code is told by its status. */
export function refusal(response: Response, body: Refusal, key: string | undefined, isLost: boolean): StewardError {
  const kind = KINDS[body.code ?? ""] ?? KINDS[response.status] ?? StewardError;
  return new (kind === StaleVersion && isLost ? OutcomeUnknown : kind)(response.status, body, response.headers, key);
}

/** A run did not end in time. */
export class WaitTimeout extends Error {
  constructor(readonly run: RunRecord) {
    super(`The run is ${run.status}.`);
  }
}
