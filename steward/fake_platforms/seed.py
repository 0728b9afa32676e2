"""Keys and secrets of the fake platforms, all derived from the seed and useless outside."""

import hashlib
import random
from dataclasses import dataclass
from functools import lru_cache

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from steward.fake_platforms.exchange import Row

REGION = "eu-central-1"
BUCKET = "supplier"
WORKFLOW = "ops"
_EXPONENT = 65537
_PRIME_BITS = 1024
_SIEVE = [n for n in range(3, 4000, 2) if all(n % d for d in range(3, int(n**0.5) + 1, 2))]


def derived(seed: int, name: str, length: int = 40) -> str:
    """Returns a hexadecimal text that depends only on seed and name."""
    return hashlib.sha512(f"steward sandbox {seed} {name}".encode()).hexdigest()[:length]


def dice(seed: int, name: str) -> random.Random:
    """Returns a separate random source for each name, so that names do not affect each other."""
    return random.Random(derived(seed, name))


def _is_prime(number: int, chance: random.Random) -> bool:
    if any(number % small == 0 for small in _SIEVE):
        return False
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(8):
        power = pow(chance.randrange(2, number - 1), odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def _prime(chance: random.Random) -> int:
    while True:
        # With the two highest bits set, the product of two primes has exactly twice their bits.
        number = chance.getrandbits(_PRIME_BITS) | 3 << (_PRIME_BITS - 2) | 1
        if number % _EXPONENT != 1 and _is_prime(number, chance):
            return number


@lru_cache(maxsize=16)
def private_key(seed: int) -> str:
    """Returns the service account's RSA key as PEM: a real key, known to anyone who knows the seed."""
    chance = dice(seed, "service account")
    p, q = _prime(chance), _prime(chance)
    d = pow(_EXPONENT, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(_EXPONENT, p * q)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public)
    return (
        numbers.private_key()
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        .decode()
    )


@dataclass(frozen=True, slots=True)
class Keys:
    """The addresses and credentials that connections to the fake platforms need."""

    seed: int
    url: str

    @property
    def consumer_key(self) -> str:
        """A key that may read and write the shop."""
        return "ck_" + derived(self.seed, "consumer key")

    @property
    def consumer_secret(self) -> str:
        """The secret of `consumer_key`."""
        return "cs_" + derived(self.seed, "consumer secret")

    @property
    def read_only_key(self) -> str:
        """A key that may only read the shop."""
        return "ck_" + derived(self.seed, "read only key")

    @property
    def read_only_secret(self) -> str:
        """The secret of `read_only_key`."""
        return "cs_" + derived(self.seed, "read only secret")

    @property
    def client_id(self) -> str:
        """The client id of the spreadsheet sign-in."""
        return derived(self.seed, "client id", 24) + ".apps.sandbox.example"

    @property
    def client_secret(self) -> str:
        """The client secret of the spreadsheet sign-in."""
        return "GOCSPX-" + derived(self.seed, "client secret", 28)

    @property
    def teams_signature(self) -> str:
        """The secret part of the Teams address."""
        return derived(self.seed, "teams", 43)

    @property
    def slack_path(self) -> str:
        """The path of the Slack webhook, which is its secret."""
        return f"/slack/services/T0SANDBOX/B0SANDBOX/{derived(self.seed, 'slack', 24)}"

    @property
    def access_key_id(self) -> str:
        """The access key id of the bucket."""
        return "AKIA" + derived(self.seed, "access key", 16).upper()

    @property
    def secret_access_key(self) -> str:
        """The secret access key of the bucket."""
        return derived(self.seed, "secret access key")

    @property
    def client_email(self) -> str:
        """The address with which spreadsheets are shared."""
        return f"steward@sandbox-{self.seed}.iam.gserviceaccount.com"

    @property
    def service_account(self) -> Row:
        """The service account's key file."""
        return {
            "type": "service_account",
            "project_id": f"sandbox-{self.seed}",
            "private_key_id": derived(self.seed, "private key id"),
            "private_key": private_key(self.seed),
            "client_email": self.client_email,
            "client_id": str(int(derived(self.seed, "account number", 16), 16)),
            "auth_uri": f"{self.url}/google/authorize",
            "token_uri": f"{self.url}/google/token",
        }

    def described(self) -> Row:
        """Returns the response of `GET /sandbox`."""
        return {
            "url": self.url,
            "seed": self.seed,
            "woocommerce": {
                "url": self.url,
                "consumer_key": self.consumer_key,
                "consumer_secret": self.consumer_secret,
                "read_only_key": self.read_only_key,
                "read_only_secret": self.read_only_secret,
            },
            "spreadsheet": {
                "service_account": self.service_account,
                "spreadsheet_ids": ["sheet-prices", "sheet-log"],
                "sheets_url": f"{self.url}/sheets",
                "token_url": f"{self.url}/google/token",
                "authorize_url": f"{self.url}/google/authorize",
                "client_id": self.client_id,
                "client_secret": self.client_secret,
            },
            "teams": {"webhook_url": f"{self.url}/teams/workflows/{WORKFLOW}?sig={self.teams_signature}"},
            "slack": {"webhook_url": f"{self.url}{self.slack_path}"},
            "webhook": {"url": f"{self.url}/hooks"},
            "cloud_s3": {
                "endpoint_url": f"{self.url}/s3",
                "region": REGION,
                "bucket": BUCKET,
                "prefix": "",
                "access_key_id": self.access_key_id,
                "secret_access_key": self.secret_access_key,
            },
        }
