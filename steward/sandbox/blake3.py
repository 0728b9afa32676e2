"""BLAKE3 for short inputs, after its published specification; a Liquid filter uses it."""

import struct
from collections.abc import Sequence
from typing import Final

_START: Final = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip
_PERMUTATION: Final = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_MIXES: Final = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT = 1, 2, 4, 8
_CHUNK: Final = 1024
_WORD: Final = 0xFFFFFFFF


def blake3(message: bytes) -> bytes:
    """Returns the 32-byte hash, without a key."""
    chunks = [message[offset : offset + _CHUNK] for offset in range(0, len(message), _CHUNK)] or [b""]
    if len(chunks) == 1:
        return struct.pack("<8I", *_chunk(chunks[0], 0, _ROOT))
    level = [_chunk(chunk, index, 0) for index, chunk in enumerate(chunks)]
    while len(level) > 2:
        pairs = [_parent(level[offset], level[offset + 1], 0) for offset in range(0, len(level) - 1, 2)]
        level = [*pairs, level[-1]] if len(level) % 2 else pairs
    return struct.pack("<8I", *_parent(level[0], level[1], _ROOT))


def _chunk(chunk: bytes, counter: int, last: int) -> Sequence[int]:
    value: Sequence[int] = _START
    blocks = [chunk[offset : offset + 64] for offset in range(0, len(chunk), 64)] or [b""]
    for number, block in enumerate(blocks):
        flags = (_CHUNK_START if number == 0 else 0) | (_CHUNK_END | last if number == len(blocks) - 1 else 0)
        words = struct.unpack("<16I", block.ljust(64, b"\0"))
        value = _compress(value, words, counter, len(block), flags)
    return value


def _parent(left_child: Sequence[int], right_child: Sequence[int], last: int) -> Sequence[int]:
    return _compress(_START, (*left_child, *right_child), 0, 64, _PARENT | last)


def _compress(
    value: Sequence[int], words: Sequence[int], counter: int, size: int, flags: int
) -> Sequence[int]:
    state = [*value, *_START[:4], counter & _WORD, counter >> 32, size, flags]
    for turn in range(7):
        for number, (a, b, c, d) in enumerate(_MIXES):
            _mix(state, a, b, c, d, words[2 * number], words[2 * number + 1])
        if turn < 6:
            words = [words[position] for position in _PERMUTATION]
    return [low ^ high for low, high in zip(state[:8], state[8:], strict=True)]


def _mix(state: list[int], a: int, b: int, c: int, d: int, first: int, second: int) -> None:
    for word, far, near in ((first, 16, 12), (second, 8, 7)):
        state[a] = (state[a] + state[b] + word) & _WORD
        state[d] = _rotate_right(state[d] ^ state[a], far)
        state[c] = (state[c] + state[d]) & _WORD
        state[b] = _rotate_right(state[b] ^ state[c], near)


def _rotate_right(word: int, by: int) -> int:
    return (word >> by | word << (32 - by)) & _WORD
