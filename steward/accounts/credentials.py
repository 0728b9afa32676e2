"""Issues, rotates, enables, disables and lists API credentials."""

from dataclasses import dataclass

from steward.accounts.keys import KeyRing
from steward.database.accounts import audit, credentials, organizations
from steward.database.engine.base import Tx
from steward.model.account import Credential
from steward.model.ids import OrgId
from steward.model.refusals import NotFound, ValidationFailed
from steward.security.secrets import hash_client_secret, new_client_id, new_client_secret

_LONGEST_LABEL = 120
# Of one organization; they are listed whole.
MAX_CREDENTIALS = 200


@dataclass(frozen=True, slots=True)
class IssuedCredential:
    """A credential with its secret, which is shown once and stored only as a hash."""

    credential: Credential
    secret: str


async def issue(tx: Tx, ring: KeyRing, org: OrgId, label: str) -> IssuedCredential:
    """Creates a credential. Raises NotFound, and ValidationFailed for an unusable label or the 201st."""
    label = label.strip()
    if len(label) > _LONGEST_LABEL or not (label.isprintable() or not label):
        raise ValidationFailed(f"Give a label of at most {_LONGEST_LABEL} characters.", errors={"label": []})
    await tx.set_tenant([org])
    if await organizations.get(tx, org) is None:
        raise NotFound(f"There is no organization {org}.")
    await organizations.lock(tx, org)
    if len(await credentials.every(tx, org)) >= MAX_CREDENTIALS:
        raise ValidationFailed(
            f"There are {MAX_CREDENTIALS} credentials already. Rotate one that is no longer needed and use it"
            " instead: rotating replaces its secret."
        )
    client_id, secret = new_client_id(), new_client_secret()
    await credentials.insert(
        tx, org, client_id, secret_hmac=_hashed(ring, secret), pepper=ring.pepper_id, label=label
    )
    await _record(tx, org, client_id, "credential_issued")
    return IssuedCredential(await _get(tx, org, client_id), secret)


async def rotate(tx: Tx, ring: KeyRing, client_id: str) -> IssuedCredential:
    """Replaces the secret of a client id; tokens issued before become invalid. Raises NotFound."""
    org = await _organization(tx, client_id)
    secret = new_client_secret()
    await credentials.set_secret(tx, org, client_id, secret_hmac=_hashed(ring, secret), pepper=ring.pepper_id)
    await _record(tx, org, client_id, "credential_rotated")
    return IssuedCredential(await _get(tx, org, client_id), secret)


async def set_enabled(tx: Tx, client_id: str, enabled: bool) -> Credential:
    """Enables or disables a credential; tokens issued before become invalid. Raises NotFound."""
    org = await _organization(tx, client_id)
    await credentials.set_enabled(tx, org, client_id, enabled)
    await _record(tx, org, client_id, "credential_enabled" if enabled else "credential_disabled")
    return await _get(tx, org, client_id)


async def every(tx: Tx, orgs: list[OrgId]) -> list[Credential]:
    """Returns the credentials of these organizations, without their secrets."""
    await tx.set_tenant(orgs)
    return [credential for org in orgs for credential in await credentials.every(tx, org)]


def _hashed(ring: KeyRing, secret: str) -> str:
    pepper = ring.pepper(ring.pepper_id)
    if pepper is None:
        raise LookupError("the current pepper is always among the peppers")
    return hash_client_secret(secret, pepper).hex()


async def _organization(tx: Tx, client_id: str) -> OrgId:
    org = await credentials.organization_of(tx, client_id)
    if org is None:
        raise NotFound(f"There is no credential {client_id!r}.")
    await tx.set_tenant([org])
    return org


async def _get(tx: Tx, org: OrgId, client_id: str) -> Credential:
    credential = await credentials.get(tx, org, client_id)
    if credential is None:
        raise NotFound(f"There is no credential {client_id!r}.")
    return credential


async def _record(tx: Tx, org: OrgId, client_id: str, action: str) -> None:
    entry = audit.AuditEntry("operator", action, object_kind="credential", object_id=client_id)
    await audit.record(tx, org, entry)
