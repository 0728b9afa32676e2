"""The node crypto: hashes values, signs them by HMAC, and generates random values from the run's seed."""

import base64
import hashlib
import hmac
import uuid
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from steward.model.json import JsonValue
from steward.steps.n8n import item_files
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    is_expression,
    paired_with,
)

_HASHES = {
    "MD5": "md5",
    "SHA256": "sha256",
    "SHA384": "sha384",
    "SHA512": "sha512",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
    "SHA1": "sha1",
}
_HASHING = ("hash", "hmac")


class CryptoNode(StepType):
    """Hashes and generates values, and signs by HMAC with a key that an expression gives.

    Other actions that need a key are unsupported, as imports contain no keys.
    """

    types = ("crypto",)
    field_use = FieldUse.EXTENDS_ITEMS
    versions = (1, 2)
    options: frozenset[str] = frozenset()
    choices = MappingProxyType(
        {
            "encoding": frozenset(("hex", "base64")),
            "encodingType": frozenset(("ascii", "base64", "hex", "uuid")),
        }
    )
    parameters = frozenset(
        (
            "action",
            "type",
            "value",
            "dataPropertyName",
            "encoding",
            "encodingType",
            "stringLength",
            "binaryData",
        )
    ) | frozenset(("secret", "privateKey", "algorithm", "binaryPropertyName"))

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields actions other than hashing and generating, unless the key is data of the run."""
        action = node.get("action", "hash")
        if action in ("hmac", "sign") and not _has_key(node):
            message = "It signs with a key, and keys are not taken from a file. Remove the step."
            yield StepProblem("error", "credential", message)
        elif action not in ("hash", "generate", "hmac"):
            yield StepProblem("error", "parameter", "Its action is not known. Choose another one.")
        kind = node.literal("type", "MD5")
        if action in _HASHING and kind not in _HASHES:
            yield StepProblem(
                "error", "parameter", f"The hash “{str(kind)[:40]}” is not known. Choose another one."
            )

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that it hashes or signs, or none if that is a value."""
        is_file = node.get("action", "hash") in _HASHING and node.get("binaryData")
        return (node.file_name("binaryPropertyName"),) if is_file else ()

    async def run(self, call: StepCall) -> NodeResult:
        """Adds the value to each item."""

        async def convert(index: int, item: Item) -> list[Item]:
            return [await _with_output(call, index, item)]

        return await convert_each_item(call, convert)


def _has_key(node: NodeDefinition) -> bool:
    """Returns whether an expression gives the key of an HMAC; version 2 has it in a credential."""
    secret = node.get("secret")
    return node.get("action") == "hmac" and node.version < 2 and is_expression(secret)


async def _with_output(call: StepCall, index: int, item: Item) -> Item:
    params = call.params(index)
    if params.text("action", "hash") == "generate":
        value = _random(params, f"{call.environment.seed}|{call.step.name}|{call.run}|{index}")
    elif params.flag("binaryData"):
        file = item_files.file_of(item, params.text("binaryPropertyName", "data"))
        value = _hashed(params, await item_files.content_of(call, file))
    else:
        value = _hashed(params, _text_bytes(params.get("value", "")))
    into: dict[str, JsonValue] = js.deep_copy(item.json)
    js.set_path(into, params.text("dataPropertyName", "data"), value)
    return Item(into, paired_with(index))


def _text_bytes(value: JsonValue) -> bytes:
    if not isinstance(value, str):
        raise ItemFailed("What is to be hashed, or its key, is not text. Turn it into one by an expression.")
    return value.encode("utf-8", "surrogatepass")


def _hashed(params: Params, content: bytes) -> str:
    name = _HASHES.get(params.text("type", "MD5"))
    if name is None:
        raise ItemFailed("The hash is not known.")
    if params.text("action", "hash") == "hmac":
        raw = hmac.digest(_text_bytes(params.get("secret", "")), content, name)
    else:
        raw = hashlib.new(name, content).digest()
    return _encoded(raw, params.text("encoding", "hex"))


def _encoded(raw: bytes, encoding: str) -> str:
    if encoding == "base64":
        return base64.b64encode(raw).decode()
    return raw.hex()


def _random(params: Params, seed: str) -> str:
    """Derives a value from the run's seed, so that a resumed run yields the same one."""
    kind = params.text("encodingType", "uuid")
    stream = hashlib.shake_256(seed.encode())
    if kind == "uuid":
        return str(uuid.UUID(bytes=stream.digest(16), version=4))
    length = js.number(params.get("stringLength", 32))
    if length != length or not 1 <= length <= 10_000:
        raise ItemFailed("The length is not a number from 1 to 10,000.")
    count = int(length)
    raw = stream.digest(count)
    if kind == "base64":
        return base64.b64encode(raw).decode().replace("+", "").replace("/", "").replace("=", "")[:count]
    if kind == "hex":
        return raw.hex()[:count]
    signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    return "".join(signs[byte % len(signs)] for byte in raw)
