"""Tenures, votes, fences and certificates of proto-docs/ownership.md."""

import base64
import binascii
import copy

from encoding import U8, U32, U64, Bool, ByteList, List, Option, Refused, Struct, Tuple, decode, unhex
from model import (
    BALLOT, DECIDED, FENCE, H16, H32, KEY, PUBLIC_KEY, SIGNATURE, SIGNED_WRITE, TERM, check_signed_write, check_value, entry_hash,
    need, object_id, write_id,
)
from registers import order
from signing import FENCE as FENCE_CONTEXT
from signing import FENCED_MESSAGE, RENEWAL, SEAL, TENURE_VOTE, verifies

LEASE_MIN_MS, LEASE_MAX_MS, FRAME_LEN = 1000, 300_000, 2 << 20
TITLE = "tanist-certificate-1"


def check_form(tenure):
    need(tenure["format"] == 1, "format")
    need(LEASE_MIN_MS <= tenure["lease_ms"] <= LEASE_MAX_MS, "lease")


TENURE = Struct({"format": U8, "term": TERM, "key": Option(PUBLIC_KEY), "lease_ms": U32}, check_form)
VOTE_FORM = Struct({"cluster": H32, "config": H32, "ballot": BALLOT, "tenure": H32, "actor": H16})
SIGNED_VOTE = Tuple(H16, SIGNATURE)
TENURE_PROOF = Struct({"signed": SIGNED_WRITE, "tenure": TENURE, "ballot": BALLOT, "votes": List(SIGNED_VOTE)})
RENEWAL_FORM = Struct({"cluster": H32, "resource": KEY, "tenure": H32, "sequence": U64})
SEAL_FORM = Struct({"cluster": H32, "namespace": H32, "key": KEY, "fence": FENCE})
FENCE_FORM = Tuple(H32, H32)
MESSAGE_FORM = Struct({"cluster": H32, "tenure": H32, "message": ByteList()})
CERTIFICATE = Struct(
    {"format": U8, "voters": List(DECIDED), "proof": TENURE_PROOF}, lambda one: need(one["format"] == 1, "format")
)
# kind in the vectors: what is signed.
STATEMENTS = {
    "vote": (TENURE_VOTE, VOTE_FORM), "heartbeat": (RENEWAL, RENEWAL_FORM), "sealing": (SEAL, SEAL_FORM),
    "fencing": (FENCE_CONTEXT, FENCE_FORM),
}


def joined(signature):
    return unhex("".join(signature))


def check_tenure(signed, tenure):
    write = signed[0]
    need(write["namespace"] == write["cluster"] and write["body"] != "Delete", "tenure-place")
    try:
        check_value(write, TENURE.write(tenure))
    except Refused:
        raise Refused("tenure-value") from None
    need(int(tenure["term"]["number"]) == int(write["generation"]), "tenure-term")
    fence = write["fence"]
    if fence:
        need(write["parents"] == [fence["tenure"]] and fence["resource"] == write["key"], "tenure-fence")
    need(bool(fence) == (tenure["key"] is None), "tenure-fence")


def prove(config, proof):
    """What a tenure's votes prove, by a configuration that is trusted."""
    write, tenure, epoch = proof["signed"][0], proof["tenure"], int(proof["ballot"]["config_epoch"])
    need(write["cluster"] == config.cluster, "cluster")
    check_tenure(proof["signed"], tenure)
    check_signed_write(proof["signed"], "owner-signature")
    need(1 <= epoch <= len(config.voters), "epoch")
    membership = config.voters[epoch - 1]
    need(tenure["term"]["recovery"] == membership["recovery"], "recovery")
    before = ""
    for actor, signature in proof["votes"]:
        need(before < actor, "repeated")
        before = actor
        member = config.member_at(actor, epoch)
        need(member and member["id"] in membership["electorate"], "not-a-voter")
        vote = {
            "cluster": config.cluster, "config": config.entry_hashes[epoch - 1], "ballot": proof["ballot"],
            "tenure": write_id(write), "actor": actor,
        }
        message = TENURE_VOTE + VOTE_FORM.write(vote)
        need(verifies(unhex(member["key"]), message, joined(signature)), "vote-signature")
    need(2 * len(proof["votes"]) > len(membership["electorate"]), "too-few")
    return {
        "cluster": config.cluster, "resource": write["key"], "term": tenure["term"], "tenure": write_id(write),
        "key": tenure["key"], "owner": write["author"], "lease_ms": tenure["lease_ms"], "config_epoch": epoch,
    }


def verify(pinned, floor, certificate):
    """What a certificate proves, by a configuration that holds the pinned entries of the voters chain."""
    config = copy.deepcopy(pinned)
    need(certificate["voters"], "cluster")
    for place, carried in enumerate(certificate["voters"]):
        entry = carried["signed"]["entry"]
        if place < len(pinned.entry_hashes):
            need(entry_hash(entry) == pinned.entry_hashes[place], "fork" if place else "cluster")
            continue
        need(entry["chain"] == "Voters", "membership")
        try:
            config.extend(carried)
        except Refused:
            raise Refused("membership") from None
    need(int(certificate["proof"]["ballot"]["config_epoch"]) >= floor, "floor")
    return prove(config, certificate["proof"])


def admit(terms):
    highest = None
    for term in terms:
        need(highest is None or order(term) >= highest, "term")
        highest = order(term)


def from_text(text):
    first, _, rest = text.partition("\n")
    need(first.rstrip() == TITLE and len(text) <= 2 * FRAME_LEN, "file")
    try:
        return base64.b64decode("".join(rest.split()), validate=True)
    except binascii.Error:
        raise Refused("file") from None


# The gate, as far as it looks at tenures.


def tenure_key(config, fence, proof):
    need(proof is not None and write_id(proof["signed"][0]) == fence["tenure"], "needs-tenure")
    epoch = int(proof["ballot"]["config_epoch"])
    proven = None
    try:
        proven = prove(config, proof)
    except Refused as refused:
        raise Refused("needs-entry" if refused.reason == "epoch" and epoch > len(config.voters) else refused.reason) from None
    need(proven["key"] and proven["resource"] == fence["resource"] and proven["term"] == fence["term"], "fence")
    return unhex(proven["key"])


def check_fence(config, signed, proof):
    write, _, signature = signed
    if write["fence"] is None and signature is None:
        return
    need(write["fence"] is not None and signature is not None, "fence")
    key = tenure_key(config, write["fence"], proof)
    message = FENCE_CONTEXT + FENCE_FORM.write([config.cluster, write_id(write)])
    need(verifies(key, message, joined(signature)), "fence")


def check_submission(config, signed, value, presented, proof):
    write, _, signature = signed
    need(write["namespace"] != config.cluster, "mode")
    if config.mode(write["namespace"]) == "Siblings":
        need(write["fence"] is None and signature is None, "fenced")
    else:
        need(not presented, "past")
    need(config.may_write(write, config.lengths["Policy"]), "no-right")
    config.check_author(signed, value)
    check_fence(config, signed, proof)
    need(len(presented) <= 16 * len(write["parents"]), "stamp-object")
    for stamp in presented:
        need(stamp[0]["write"] in write["parents"], "stamp-object")
        config.check_stamp(stamp, object_id(write["namespace"], write["key"]))


def check_campaign(config, signed, value, proof):
    try:
        tenure = decode(TENURE, value)
    except Refused:
        raise Refused("value") from None
    check_tenure(signed, tenure)
    need(tenure["term"]["recovery"] == config.voters[-1]["recovery"], "recovery")
    need(config.may_write(signed[0], config.lengths["Policy"]), "no-right")
    config.check_author(signed, value)
    check_fence(config, signed, proof)


def check_seal(config, seal, signature, sealer, proof):
    need(seal["namespace"] != config.cluster and config.mode(seal["namespace"]) == "Linearizable", "mode")
    need(seal["cluster"] == config.cluster, "cluster")
    rights = ["read", "write"]
    need(config.may(sealer, rights, seal["namespace"], seal["key"], config.lengths["Policy"]), "no-right")
    key = tenure_key(config, seal["fence"], proof)
    need(verifies(key, SEAL + SEAL_FORM.write(seal), signature), "fence")


def check_renewal(config, renewal, key, signature):
    need(renewal["cluster"] == config.cluster, "cluster")
    need(verifies(key, RENEWAL + RENEWAL_FORM.write(renewal), signature), "renewal-signature")
