"""Plants secrets in n8n exports at twelve kinds of places, and harmless values, from a seed."""

import base64
import json
import string
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

_LETTERS: Final = string.ascii_letters + string.digits
Generator = Callable[[Random], str]


def drawn(random: Random, length: int, characters: str = _LETTERS) -> str:
    """Returns random characters with at least two digits among them."""
    text = "".join(random.choice(characters) for _ in range(length - 2))
    return text[: length // 2] + str(random.randrange(10, 99)) + text[length // 2 :]


def lower_hex(random: Random, length: int) -> str:
    """Returns hexadecimal digits with a letter among them."""
    return "".join(random.choice("0123456789abcdef") for _ in range(length - 2)) + "a7"


def jwt(random: Random) -> str:
    """Returns a JSON web token with a random signature."""
    parts = ({"alg": "HS256"}, {"sub": drawn(random, 8)})
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, drawn(random, 43)])


def password(random: Random) -> str:
    """Returns a password as people choose one, with a digit and mostly with a sign."""
    word = random.choice(("Sommer", "winter", "Fahrrad", "dragon", "Lager", "shop", "correct-horse"))
    return word + random.choice(("!", "#", "$", "_", "")) + str(random.randrange(1000, 99_999))


PREFIXED: Final[tuple[Generator, ...]] = (
    lambda random: "sk-" + drawn(random, 48),
    lambda random: "sk-proj-" + drawn(random, 60),
    lambda random: "sk_live_" + drawn(random, 24),
    lambda random: "ghp_" + drawn(random, 36),
    lambda random: f"xoxb-{random.randrange(10**11, 10**12)}-{drawn(random, 24)}",
    lambda random: "AKIA" + drawn(random, 16, string.ascii_uppercase + string.digits),
    lambda random: "shpat_" + lower_hex(random, 32),
    lambda random: "glpat-" + drawn(random, 20),
    lambda random: "AIza" + drawn(random, 35),
    lambda random: f"SG.{drawn(random, 22)}.{drawn(random, 43)}",
    lambda random: f"{random.randrange(10**8, 10**10)}:AA{drawn(random, 33)}",
    lambda random: "ck_" + lower_hex(random, 40),
    lambda random: "pat" + drawn(random, 14) + "." + lower_hex(random, 64),
    lambda random: f"{lower_hex(random, 32)}-us{random.randrange(1, 22)}",
    jwt,
)
UNMARKED: Final[tuple[Generator, ...]] = (
    lambda random: drawn(random, random.randrange(16, 65)),
    lambda random: lower_hex(random, random.choice((32, 40, 64))),
    lambda random: drawn(random, 32, string.ascii_lowercase + string.digits),
    lambda random: str(uuid.UUID(int=random.getrandbits(128), version=4)),
    password,
    lambda random: base64.b64encode(random.randbytes(24)).decode(),
)
NAMES: Final = (
    *(
        "PRIVATE-TOKEN",
        "dbPassword",
        "xi-api-key",
        "GITHUB_TOKEN",
        "hapikey",
        "X-Amz-Signature",
        "apiKey",
        "api_key",
    ),
    *(
        "X-API-Key",
        "access_token",
        "accessToken",
        "client_secret",
        "clientSecret",
        "X-Auth-Token",
        "SMTP_PASS",
    ),
    *("db_pwd", "Ocp-Apim-Subscription-Key", "X-Shopify-Access-Token", "webhookSecret", "signing_secret"),
    *(
        "refreshToken",
        "bearerToken",
        "consumer_secret",
        "privateKey",
        "encryptionKey",
        "OPENAI_API_KEY",
        "appSecret",
    ),
    *(
        "auth_token",
        "AWS_SECRET_ACCESS_KEY",
        "userPassword",
        "passphrase",
        "jwtSecret",
        "X-N8N-API-KEY",
        "apitoken",
    ),
)


@dataclass(frozen=True, slots=True)
class Planted:
    """Holds a secret, the kind of place it is planted in, and the export that contains it."""

    kind: str
    value: str
    workflow: dict[str, Any]


def workflow(parameters: dict[str, Any], type_: str = "httpRequest", **node_settings: Any) -> dict[str, Any]:
    """Returns an export of one step behind a manual start."""
    beside = {name: node_settings.pop(name) for name in ("pinData", "staticData") if name in node_settings}
    node = {
        "id": "8c5a6d1e-97b0-4b4e-9d1b-0a8a40c7f4aa",
        "name": "Step",
        "type": f"n8n-nodes-base.{type_}",
        "typeVersion": 4.2,
        "position": [200, 0],
        "parameters": parameters,
        **node_settings,
    }
    start = {
        **node,
        "name": "Start",
        "type": "n8n-nodes-base.manualTrigger",
        "parameters": {},
        "typeVersion": 1,
    }
    for name in node_settings:
        start.pop(name, None)
    return {"name": "Planted", "nodes": [start, node], "connections": {}, "settings": {}, **beside}


def _any(random: Random) -> str:
    return random.choice(PREFIXED if random.random() < 0.4 else UNMARKED)(random)


def _token(random: Random) -> str:
    """Returns a value without signs that an address or a header would escape."""
    while any(sign in (value := _any(random)) for sign in "+/=#$!"):
        pass
    return value


def _header(random: Random) -> tuple[str, Any]:
    value = _token(random)
    scheme = random.choice(("Bearer ", "Token ", "", "Bot "))
    row = {"name": "Authorization", "value": scheme + value}
    if not scheme:
        row = {"name": random.choice(NAMES), "value": value}
    return value, workflow({"headerParameters": {"parameters": [{"name": "Accept", "value": "*/*"}, row]}})


def _query(random: Random) -> tuple[str, Any]:
    value, name = _token(random), random.choice((*NAMES, "token", "key", "apikey"))
    if name == "key":
        value = drawn(random, 40)
    if random.random() < 0.5:
        return value, workflow({"queryParameters": {"parameters": [{"name": name, "value": value}]}})
    return value, workflow({"url": f"https://api.example.com/v1/orders?limit=5&{name}={value}&page=2"})


def _user_part(random: Random) -> tuple[str, Any]:
    value = drawn(random, random.randrange(8, 30))
    scheme = random.choice(("https", "postgres", "mongodb+srv", "redis", "amqp", "mysql", "ftp"))
    user = random.choice(("admin", "svc", "", "user%40example.com"))
    return value, workflow({"url": f"{scheme}://{user}:{value}@db.example.com:5432/main?ssl=true"})


def _body(random: Random) -> tuple[str, Any]:
    value, name = _any(random), random.choice(NAMES)
    choice = random.randrange(4)
    if choice == 0:
        return value, workflow({"jsonBody": json.dumps({"user": "shop", "options": {name: value}})})
    if choice == 1:
        return value, workflow({"jsonBody": f'={{\n  "{name}": "{value}",\n  "id": {{{{ $json.id }}}}\n}}'})
    if choice == 2:
        return value, workflow({"bodyParameters": {"parameters": [{"name": name, "value": value}]}})
    return value, workflow({"jsonHeaders": json.dumps({name: value, "Accept": "application/json"})})


def _assigned_field(random: Random) -> tuple[str, Any]:
    value, name = _any(random), random.choice(NAMES)
    row = {"id": str(uuid.UUID(int=random.getrandbits(128))), "name": name, "value": value, "type": "string"}
    if random.random() < 0.5:
        return value, workflow({"assignments": {"assignments": [row]}}, "set")
    return value, workflow({"values": {"string": [{"name": name, "value": value}]}}, "set")


_SCRIPTS: Final = (
    "const {name} = {quote}{value}{quote};\nreturn items;",
    "let config = {{ host: 'db', {name}: {quote}{value}{quote}, port: 5432 }};",
    "headers[{quote}{header}{quote}] = {quote}{value}{quote};",
    "req.setRequestHeader({quote}{header}{quote}, {quote}{value}{quote})",
    "const {name} = process.env.VALUE || {quote}{value}{quote}",
    "const headers = {{\n  {quote}{header}{quote}: {quote}{value}{quote},\n}}",
    "this.{name}={quote}{value}{quote}",
    "const auth = {quote}Bearer {value}{quote};\nlet {name}: string = {quote}{value}{quote};",
    "params.append({quote}{header}{quote}, {quote}{value}{quote});",
)


def _script(random: Random) -> tuple[str, Any]:
    value, name = _any(random), random.choice(NAMES)
    text = random.choice(_SCRIPTS).format(
        name=name.replace("-", "_"), header=name, value=value, quote=random.choice("'\"`")
    )
    return value, workflow({"jsCode": text}, "code")


_NOTES: Final = (
    "Set it up first.\n\n**{name}**: {value}\n\nThen run it.",
    "Use the {name} `{value}` for the request.",
    "Login: shop@example.com, Password: {value}",
    "API key = {value}",
    "Der API-Schlüssel lautet {value}.",
    "Passwort: {value}",
    "Old token: {value} (until March)",
    "curl -H 'Authorization: Bearer {value}' https://api.example.com",
    "| {name} | {value} |",
)


def _note_text(random: Random) -> tuple[str, str]:
    value = _token(random)
    return value, random.choice(_NOTES).format(name=random.choice(NAMES), value=value)


def _note(random: Random) -> tuple[str, Any]:
    value, text = _note_text(random)
    return value, workflow({}, "noOp", notes=text)


def _sticky(random: Random) -> tuple[str, Any]:
    value, text = _note_text(random)
    export = workflow({}, "noOp")
    sticky = {**export["nodes"][1], "name": "Note", "type": "n8n-nodes-base.stickyNote"}
    export["nodes"].append({**sticky, "parameters": {"content": f"## Read me\n{text}", "height": 300}})
    return value, export


def _webhook_path(random: Random) -> tuple[str, Any]:
    value = random.choice((drawn(random, 32), lower_hex(random, 40), drawn(random, 24)))
    path = random.choice(("{value}", "orders/{value}", "hook/{value}/new")).format(value=value)
    export = workflow({}, "noOp")
    export["nodes"][0] |= {
        "type": "n8n-nodes-base.webhook",
        "parameters": {"path": path, "httpMethod": "POST"},
    }
    return value, export


def _credential(random: Random) -> tuple[str, Any]:
    value = _any(random)
    data: Any = {random.choice((*NAMES, "value", "password")): value, "port": 443}
    stored = {
        "httpHeaderAuth": {"id": "12", "name": "Shop", "data": data if random.random() < 0.7 else value}
    }
    return value, workflow({}, credentials=stored)


def _beside(random: Random) -> tuple[str, Any]:
    value, name = _any(random), random.choice(NAMES)
    if random.random() < 0.5:
        return value, workflow({}, "noOp", pinData={"Step": [{"json": {"headers": {name: value}}}]})
    return value, workflow({}, "noOp", staticData={"global": {name: value}})


def _connection_string(random: Random) -> tuple[str, Any]:
    value = drawn(random, 28)
    text = random.choice(
        (
            "Server=tcp:db.example.com,1433;Database=shop;User ID=svc;Password={value};Encrypt=True;",
            "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={value};EndpointSuffix=core.windows.net",
            "Endpoint=sb://shop.example.net/;SharedAccessKeyName=Root;SharedAccessKey={value}",
            "host=db user=svc password={value} dbname=shop",
            "DB_PASSWORD={value}\nDB_HOST=localhost",
        )
    ).format(value=value)
    return value, workflow({"options": {"connectionString": text}})


PLACES: Final[dict[str, Callable[[Random], tuple[str, Any]]]] = {
    "header": _header,
    "query": _query,
    "user part of an address": _user_part,
    "body": _body,
    "field that is set": _assigned_field,
    "script": _script,
    "note of a step": _note,
    "sticky note": _sticky,
    "path of a webhook": _webhook_path,
    "credentials": _credential,
    "pinned and static data": _beside,
    "connection string": _connection_string,
}


def planted(seed: int, count: int) -> list[Planted]:
    """Returns `count` exports with one secret each, cycling through the kinds of places."""
    random = Random(seed)
    kinds = list(PLACES)
    return [Planted(kind, *PLACES[kind](random)) for kind in (kinds[index % 12] for index in range(count))]


_SENTENCES: Final = (
    "Your order {number} was shipped on {date}.",
    "Bitte das Passwort nie per Mail senden; Fragen an das Lager.",
    "The token expires after 30 days, then sign in again.",
    "Die Bestellung {number} wartet auf Zahlung seit {date}.",
    "Set the API key in the credentials of this node, never here.",
    "Secret santa sale: 20 % on all keychains, key rings and cookies!",
    "Kundenkonto, Schlüsselanhänger und Passepartout für {number} Kunden",
    "Tokens used: {number}, limit 50000 per day.",
    "Key features: waterproof, {number} g, made in 2024.",
    "Authorization is required; see the documentation of the shop.",
)
_EXPRESSIONS: Final = (
    "={{ $json.token }}",
    "={{ $('Login').item.json.access_token }}",
    "=Bearer {{ $json.accessToken }}",
    "={{ $env.API_KEY }}",
    "={{ $json.data.map(item => item.key).join(',') }}",
    "={{ $node['Get key'].json['api_key'] }}",
    "={{ DateTime.now().minus({{ days: {number} }}).toISO() }}",
)
_FIELDS: Final = ("customer_name", "order-status", "primaryKey", "tier", "status")


def _field(random: Random) -> str:
    return random.choice(_FIELDS) + str(random.randrange(99))


def _sku(random: Random) -> str:
    start, end = random.choice(("SK", "TS-BLK", "KEY", "AB")), random.choice(("XL", "M", "2024"))
    return f"{start}-{random.randrange(10**5)}-{end}"


def _product_address(random: Random) -> str:
    name = random.choice(("key", "token", "auth"))
    query = f"variant={random.randrange(10**13)}&utm_source=mail"
    return f"https://shop.example.com/products/{name}-ring-{random.randrange(999)}?{query}"


HARMLESS: Final[dict[str, tuple[str, Generator]]] = {
    "uuid": ("id", lambda random: str(uuid.UUID(int=random.getrandbits(128), version=4))),
    "number": ("order_id", lambda random: str(random.randrange(10**6, 10**14))),
    "gid": (
        "admin_graphql_api_id",
        lambda random: f"gid://shopify/Product/{random.randrange(10**12, 10**14)}",
    ),
    "base64 gid": (
        "cursor",
        lambda random: base64.b64encode(f"gid://shopify/Order/{random.randrange(10**12)}".encode()).decode(),
    ),
    "sku": (
        "sku",
        lambda random: _sku(random),
    ),
    "image": (
        "image",
        lambda random: "data:image/png;base64,iVBORw0KGgo" + base64.b64encode(random.randbytes(300)).decode(),
    ),
    "bare image": (
        "value",
        lambda random: "/9j/4AAQSkZJRg" + base64.b64encode(random.randbytes(200)).decode(),
    ),
    "address": (
        "url",
        lambda random: _product_address(random),
    ),
    "sheet address": (
        "value",
        lambda random: f"https://docs.google.com/spreadsheets/d/1{drawn(random, 43)}/edit#gid=0",
    ),
    "hash": ("sha256", lambda random: lower_hex(random, 64)),
    "loose hash": ("value", lambda random: lower_hex(random, random.choice((32, 40, 64)))),
    "base64 digest": ("content_md5", lambda random: base64.b64encode(random.randbytes(16)).decode()),
    "text": (
        "description",
        lambda random: random.choice(_SENTENCES).format(number=random.randrange(10**6), date="2024-11-05"),
    ),
    "expression": (
        "token",
        lambda random: random.choice(_EXPRESSIONS).replace("{number}", str(random.randrange(99))),
    ),
    "sheet": ("value", lambda random: "1" + drawn(random, 43)),
    "folder": ("folderId", lambda random: "1" + drawn(random, 32)),
    "colour": ("color", lambda random: f"#{random.getrandbits(24):06x}"),
    "date": (
        "key",
        lambda random: f"2024-{random.randrange(10, 13)}-{random.randrange(10, 29)}T10:00:00.000Z",
    ),
    "node id": ("id", lambda random: drawn(random, 16)),
    "stripe id": (
        "price",
        lambda random: random.choice(("price_", "cus_", "pi_", "prod_")) + drawn(random, 24),
    ),
    "airtable id": ("value", lambda random: random.choice(("app", "tbl", "rec")) + drawn(random, 14)),
    "mail": ("email", lambda random: f"{drawn(random, 10).lower()}@example.com"),
    "word under a name": ("key", _field),
    "choice": (
        "authentication",
        lambda random: random.choice(("genericCredentialType", "predefinedCredentialType", "headerAuth")),
    ),
    "address under a name": (
        "accessTokenUrl",
        lambda random: f"https://login.example.com/{random.randrange(99)}/oauth/token",
    ),
    "phone": ("phone", lambda random: f"+49 30 {random.randrange(10**6, 10**8)}"),
}
