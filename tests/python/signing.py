"""Hashes, keys, signatures and Merkle paths of proto-docs/conventions.md."""

import blake3
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from encoding import U32, Refused

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)

CONTEXTS = {
    "actor": "tanist v1 actor",
    "object": "tanist v1 object",
    "write": "tanist v1 write",
    "stamp": "tanist v1 stamp",
    "inner": "tanist v1 merkle inner node",
    "entry": "tanist v1 configuration entry",
    "placement": "tanist v1 placement",
    "register": "tanist v1 register state",
}
BATCH = b"tanist v1 batch signature\0"
VOTE = b"tanist v1 vote\0"
TENURE_VOTE = b"tanist v1 tenure vote\0"
RENEWAL = b"tanist v1 renewal\0"
FENCE = b"tanist v1 fence\0"
SEAL = b"tanist v1 seal\0"
FENCED_MESSAGE = b"tanist v1 fenced message\0"
BATCH_ITEMS = 65536


def derived(context, data):
    return blake3.blake3(data, derive_key_context=CONTEXTS[context]).digest()


def plain(data):
    return blake3.blake3(data).digest()


def point(data):
    """The point that 32 bytes are the canonical form of, or None."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return (P - x if x & 1 != sign else x), y


def add(one, other):
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x, y


def check_key(data):
    at = point(data)
    if at is None:
        raise Refused("public-key")
    for _ in range(3):
        at = add(at, at)
    if at == (0, 1):
        raise Refused("public-key")


def sign(seed, message):
    return SigningKey(seed).sign(message).signature


def public_key(seed):
    return bytes(SigningKey(seed).verify_key)


def verifies(key, message, signature):
    check_key(key)
    try:
        VerifyKey(key).verify(message, signature)
    except BadSignatureError:
        return False
    return True


def inner(left, right):
    return derived("inner", left + right)


def levels(leaves):
    """All levels of the tree, from the leaves to the root; an odd node goes up as it is."""
    all_levels = [leaves]
    while len(all_levels[-1]) > 1:
        below = all_levels[-1]
        all_levels.append([inner(*below[n : n + 2]) if n + 1 < len(below) else below[n] for n in range(0, len(below), 2)])
    return all_levels


def path(all_levels, index):
    steps = []
    for level in all_levels[:-1]:
        if index ^ 1 < len(level):
            steps.append(level[index ^ 1])
        index //= 2
    return steps


def root_of(proof, leaf):
    count, index, steps = proof["count"], proof["index"], [bytes.fromhex(step) for step in proof["path"]]
    if index >= count or count > BATCH_ITEMS:
        raise Refused("path")
    node = leaf
    while count > 1:
        if index % 2 == 1 or index + 1 < count:
            if not steps:
                raise Refused("path")
            step = steps.pop(0)
            node = inner(step, node) if index % 2 == 1 else inner(node, step)
        index, count = index // 2, (count + 1) // 2
    if steps:
        raise Refused("path")
    return node


def batch_message(cluster, count, root):
    return BATCH + cluster + U32.write(count) + root


def check_proof(proof, key, cluster, leaf, reason="signature"):
    try:
        root = root_of(proof, leaf)
    except Refused:
        raise Refused("path" if reason == "signature" else reason) from None
    message = batch_message(cluster, proof["count"], root)
    if not verifies(key, message, bytes.fromhex("".join(proof["signature"]))):
        raise Refused(reason)
