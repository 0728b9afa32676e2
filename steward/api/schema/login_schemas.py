"""The login in the OpenAPI document; it is not part of the table of operations."""

from typing import Any

from steward.api.schema.components import ref

Json = dict[str, Any]

_TEXT: Json = {"type": "string", "minLength": 1, "maxLength": 320}
_PERSON: Json = {
    "username": {**_TEXT, "description": "Name of the person the token acts as."},
    "email": {**_TEXT, "description": "E-mail address of that person."},
    "organization_name": {**_TEXT, "description": "Name of the organization."},
}
_CLIENT: Json = {
    "client_id": {**_TEXT, "description": "Id of the organization's API credential."},
    "client_secret": {**_TEXT, "description": "Secret of the API credential."},
}
_GRANT: Json = {"type": "string", "const": "client_credentials"}

_TOKEN: Json = {
    "access_token": {"type": "string", "description": "A signed JWT: send it as a bearer token."},
    "token_type": {"type": "string", "const": "Bearer"},
    "expires_in": {"type": "integer", "minimum": 1, "description": "Seconds the token lives."},
    "scope": {"type": "string", "description": "The scopes granted, with blanks between them."},
    "service_url": {"type": "string", "description": "Base address of the API."},
    "direct": {"type": "boolean"},
    "user": ref("LoginUser"),
    "organization": ref("LoginOrganization"),
    "expires_at": {"type": "string", "format": "date-time"},
}

LOGIN_SCHEMAS: Json = {
    "LoginBody": {
        "type": "object",
        "description": "A login as JSON.",
        "required": [*_PERSON, *_CLIENT],
        "properties": {**_PERSON, **_CLIENT, "grant_type": _GRANT, "scope": {"type": "string"}},
        "additionalProperties": False,
    },
    "LoginForm": {
        "type": "object",
        "description": "The same as OAuth 2.0 client credentials; id and secret here or as HTTP Basic.",
        "required": ["grant_type", *_PERSON],
        "properties": {"grant_type": _GRANT, **_PERSON, **_CLIENT, "scope": {"type": "string"}},
    },
    "LoginResponse": {
        "type": "object",
        "description": "A token and what it stands for; `data` repeats the fields.",
        "required": ["success", "contract_version", *_TOKEN, "data"],
        "properties": {
            "success": {"type": "boolean", "const": True},
            "contract_version": {"type": "integer", "minimum": 1},
            **_TOKEN,
            "data": ref("LoginToken"),
        },
    },
    "LoginToken": {
        "type": "object",
        "description": "A token and what it stands for.",
        "required": list(_TOKEN),
        "properties": _TOKEN,
    },
    "LoginUser": {
        "type": "object",
        "description": "The person the token acts as.",
        "required": ["email", "first_name", "last_name"],
        "properties": {name: {"type": "string"} for name in ("email", "first_name", "last_name")},
    },
    "LoginOrganization": {
        "type": "object",
        "description": "The organization the token is bound to.",
        "required": ["id", "name"],
        "properties": {"id": {"type": "integer", "minimum": 1}, "name": {"type": "string"}},
    },
}
