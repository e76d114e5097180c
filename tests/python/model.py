"""Types and rules of proto-docs/objects.md, causality.md and chains/configuration.md."""

import re

from encoding import (
    U8, U32, U64, Bool, ByteList, Enum, Fixed, List, Option, Refused, Struct, Text, Tuple, decode, unhex,
)
from signing import VOTE, check_key, check_proof, derived, plain, verifies

VALUE_LEN, KEY_LEN, VERSIONS, STAMPS = 1 << 20, 1024, 1024, 16
PAST_ACTORS, PAST_RANGES, MEMBERS, NAMESPACE_LEN, POLICY_ITEMS = 512, 4096, 64, 63, 4096


def need(condition, reason):
    if not condition:
        raise Refused(reason)


def rising(items):
    return all(one < other for one, other in zip(items, items[1:]))


def check_past(past):
    need(len(past) <= PAST_ACTORS and sum(len(ranges) for _, ranges in past) <= PAST_RANGES, "past-size")
    need(rising([actor for actor, _ in past]), "past-form")
    for _, ranges in past:
        need(ranges, "past-form")
        need(all(int(one["after"]) < int(one["upto"]) for one in ranges), "past-form")
        need(all(int(a["upto"]) < int(b["after"]) for a, b in zip(ranges, ranges[1:])), "past-form")


def check_write(write):
    need(write["format"] == 1, "format")
    need(rising(write["parents"]) and len(write["parents"]) <= VERSIONS, "parents")
    if write["body"] != "Delete":
        need(int(write["body"]["Put"]["len"]) <= VALUE_LEN, "value-length")
    generation = int(write["generation"])
    need(generation == 1 if not write["parents"] else generation > 1, "generation")


def check_stamp(stamp):
    need(stamp["format"] == 1, "format")
    need(int(stamp["previous"]) < int(stamp["counter"]), "event")


def check_stamps(stamps):
    need(len(stamps) <= STAMPS and rising([dot(stamp) for stamp, _ in stamps]), "stamps")


def dot(stamp):
    return stamp["actor"], int(stamp["counter"])


H32, H16, SIGNATURE = Fixed(32), Fixed(16), Fixed(64)
PUBLIC_KEY = Fixed(32, check_key)
KEY = ByteList(lambda data: need(1 <= len(data) <= KEY_LEN, "key"))
NAME = Text(lambda text: need(re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", text), "name"))
RANGE = Struct({"after": U64, "upto": U64})
PAST = List(Tuple(H16, List(RANGE)), check_past)
BODY = Enum(("Put", Struct({"len": U64, "hash": H32})), "Delete")
TERM = Struct({"recovery": U32, "number": U64})
FENCE = Struct({"resource": KEY, "term": TERM, "tenure": H32})
PROOF = Struct({"signature": SIGNATURE, "count": U32, "index": U32, "path": List(H32)})
WRITE = Struct(
    {
        "format": U8, "cluster": H32, "namespace": H32, "key": KEY, "epoch": U64, "generation": U64, "parents": List(H32),
        "body": BODY, "author": PUBLIC_KEY, "nonce": H16, "fence": Option(FENCE), "wall_ms": U64,
    },
    check_write,
)
SIGNED_WRITE = Tuple(WRITE, PROOF, Option(SIGNATURE))
STAMP = Struct(
    {
        "format": U8, "cluster": H32, "object": H32, "write": H32, "config_epoch": U64, "policy_revision": U64,
        "actor": H16, "previous": U64, "counter": U64, "past": PAST,
    },
    check_stamp,
)
SIGNED_STAMP = Tuple(STAMP, PROOF)
VERSION = Struct({"signed": SIGNED_WRITE, "stamps": List(SIGNED_STAMP, check_stamps)})

CHAIN = Enum("Voters", "Policy", "WriteEpochs")
MODE = Enum("Siblings", "Linearizable")
RIGHTS = Struct({"read": Bool(), "write": Bool(), "elect": Bool()})
GRANT = Struct({"author": Option(PUBLIC_KEY), "namespace": Option(H32), "prefix": ByteList(), "rights": RIGHTS})
MEMBER = Struct({"id": H16, "name": Text(), "key": PUBLIC_KEY, "incarnation": H16, "zone": Text()})
VOTERS = Struct(
    {
        "nonce": H16, "recovery": U32, "members": List(MEMBER), "electorate": List(H16), "replicas": U8,
        "admins": List(PUBLIC_KEY), "grants": List(GRANT),
    }
)
NAMESPACE = Struct({"name": NAME, "mode": MODE, "write_quorum": Option(U8)})
CHANGE = Enum(
    ("Voters", VOTERS), ("CreateNamespace", NAMESPACE), ("DropNamespace", H32), ("AddGrant", GRANT), ("RemoveGrant", GRANT),
    "AdvanceEpoch", ("CreateOwnedNamespace", Tuple(NAMESPACE, KEY)),
)
ENTRY = Struct({"format": U8, "chain": CHAIN, "number": U64, "previous": H32, "change": CHANGE})
BALLOT = Struct({"config_epoch": U64, "counter": U64, "actor": H16})
VOTE_FORM = Struct({"cluster": H32, "chain": CHAIN, "number": U64, "ballot": BALLOT, "entry": H32, "actor": H16})
SIGNED_ENTRY = Struct({"entry": ENTRY, "admin": Option(Tuple(PUBLIC_KEY, PROOF))})
DECIDED = Struct({"signed": SIGNED_ENTRY, "ballot": BALLOT, "votes": List(Tuple(H16, SIGNATURE))})


def write_id(write):
    return derived("write", WRITE.write(write)).hex()


def object_id(namespace, key):
    return derived("object", H32.write(namespace) + KEY.write(key)).hex()


def actor_id(cluster, member, incarnation):
    return derived("actor", unhex(cluster) + unhex(member) + unhex(incarnation))[:16].hex()


def entry_hash(entry):
    return derived("entry", ENTRY.write(entry)).hex()


def check_value(write, value):
    body = write["body"]
    if body == "Delete":
        need(value == b"", "value")
    else:
        need(int(body["Put"]["len"]) == len(value) and body["Put"]["hash"] == plain(value).hex(), "value")


def check_signed_write(signed, reason="signature"):
    write, proof, _ = signed
    check_proof(proof, unhex(write["author"]), unhex(write["cluster"]), unhex(write_id(write)), reason)


# Causality: a past as a map from actor to a list of (after, upto).


def ranges_of(past):
    return {actor: [(int(one["after"]), int(one["upto"])) for one in ranges] for actor, ranges in past}


def joined(ranges):
    result = []
    for after, upto in sorted(ranges):
        if result and after <= result[-1][1]:
            result[-1] = (result[-1][0], max(upto, result[-1][1]))
        else:
            result.append((after, upto))
    return result


def union(pasts):
    everything = {}
    for past in pasts:
        for actor, ranges in past.items():
            everything.setdefault(actor, []).extend(ranges)
    return {actor: joined(ranges) for actor, ranges in everything.items()}


def shown(past):
    return [[actor, [{"after": a, "upto": u} for a, u in past[actor]]] for actor in sorted(past)]


def event(stamp):
    return {stamp["actor"]: [(int(stamp["previous"]), int(stamp["counter"]))]}


def past_of(stamps):
    return union([part for stamp in stamps for part in (ranges_of(stamp["past"]), event(stamp))])


def covers(past, actor, after, upto):
    return any(low <= after and upto <= high for low, high in past.get(actor, []))


def merged(versions):
    """Versions by id, each with the union of its stamps: of two under one dot the lower hash, at most the 16 first."""
    result = {}
    for version in versions:
        stamps = result.setdefault(write_id(version["signed"][0]), (version["signed"][0], {}))[1]
        for stamp, _ in version["stamps"]:
            key = lambda one: derived("stamp", STAMP.write(one))
            held = stamps.get(dot(stamp))
            if held is None or key(stamp) < key(held):
                stamps[dot(stamp)] = stamp
        for last in sorted(stamps)[STAMPS:]:
            del stamps[last]
    return result


def live_and_superseded(versions, index, distrusted):
    known = merged(versions)
    superseded = {one for one, _ in index}
    for write, _ in known.values():
        superseded.update(write["parents"])
    pasts = {one: union([ranges_of(stamp["past"]) for stamp in stamps.values()]) for one, (_, stamps) in known.items()}
    for one, (_, stamps) in known.items():
        for stamp in stamps.values():
            if stamp["actor"] in distrusted:
                continue
            (span,) = event(stamp)[stamp["actor"]]
            if any(covers(past, stamp["actor"], *span) for other, past in pasts.items() if other != one):
                superseded.add(one)
    return sorted(set(known) - superseded), sorted(superseded)


# Placement.


def score(member, objekt):
    return derived("placement", unhex(member) + unhex(objekt)).hex()


def placement(members, replicas, objekt):
    ranked = sorted(members, key=lambda one: (score(one["id"], objekt), one["id"]), reverse=True)
    order, used = [], set()
    while ranked and len(order) < replicas:
        fresh = next((one for one in ranked if one["zone"] not in used), None)
        if fresh is None:
            used = set()
            continue
        ranked.remove(fresh)
        used.add(fresh["zone"])
        order.append(fresh["id"])
    return order


def electorate(voters, objekt):
    return sorted(voters, key=lambda one: (score(one, objekt), one), reverse=True)


# Configuration.


def check_voters(voters):
    members = voters["members"]
    ids = [one["id"] for one in members]
    need(1 <= len(members) <= MEMBERS and len(members) != 2, "voters")
    need(rising(ids), "voters")
    for field in ("name", "key"):
        need(len({one[field] for one in members}) == len(members), "voters")
    need(all(1 <= len(one["name"].encode()) <= NAMESPACE_LEN for one in members), "voters")
    need(all(len(one["zone"].encode()) <= NAMESPACE_LEN for one in members), "voters")
    electorate = voters["electorate"]
    need(len(electorate) in (1, 3, 5, 7) and rising(electorate) and set(electorate) <= set(ids), "voters")
    need(1 <= voters["replicas"] <= 7 and 1 <= len(voters["admins"]) <= MEMBERS, "voters")
    need(len(voters["grants"]) <= POLICY_ITEMS, "voters")
    need(all(grant["namespace"] is None for grant in voters["grants"]), "voters")


def check_admin(signed, admins, cluster):
    need(signed["admin"] is not None and signed["admin"][0] in admins, "not-admin")
    key, proof = signed["admin"]
    check_proof(proof, unhex(key), unhex(cluster), unhex(entry_hash(signed["entry"])), "not-admin")


class Configuration:
    def __init__(self, genesis):
        entry = genesis["signed"]["entry"]
        need(entry["format"] == 1, "format")
        need(isinstance(entry["change"], dict) and "Voters" in entry["change"], "wrong-chain")
        need(entry["chain"] == "Voters" and entry["number"] == 1 and entry["previous"] == "00" * 32, "not-next")
        voters = entry["change"]["Voters"]
        check_voters(voters)
        self.cluster = entry_hash(entry)
        check_admin(genesis["signed"], voters["admins"], self.cluster)
        self.voters, self.entry_hashes = [voters], [self.cluster]
        self.heads = {"Voters": self.cluster, "Policy": self.cluster, "WriteEpochs": self.cluster}
        self.lengths = {"Voters": 1, "Policy": 0, "WriteEpochs": 0}
        self.namespaces = {}
        self.grants = [{"grant": grant, "added": 0, "removed": None} for grant in voters["grants"]]

    def extend(self, decided):
        signed, entry = decided["signed"], decided["signed"]["entry"]
        chain, change = entry["chain"], entry["change"]
        kind = change if isinstance(change, str) else next(iter(change))
        need(entry["format"] == 1, "format")
        need(int(entry["number"]) == self.lengths[chain] + 1 and entry["previous"] == self.heads[chain], "not-next")
        admins = self.voters[-1]["admins"]
        if chain == "Voters":
            need(kind == "Voters", "wrong-chain")
            check_voters(change["Voters"])
            check_admin(signed, admins, self.cluster)
        elif chain == "Policy":
            self.check_policy(kind, change)
            check_admin(signed, admins, self.cluster)
        else:
            need(kind == "AdvanceEpoch", "wrong-chain")
        self.check_votes(decided)
        if chain == "Voters":
            self.voters.append(change["Voters"])
            self.entry_hashes.append(entry_hash(entry))
        elif chain == "Policy":
            self.apply_policy(kind, change[kind], entry)
        self.lengths[chain] += 1
        self.heads[chain] = entry_hash(entry)

    def check_policy(self, kind, change):
        need(kind not in ("Voters", "AdvanceEpoch"), "policy")
        change = change[kind]
        held = [one["grant"] for one in self.grants if one["removed"] is None]
        if kind in ("CreateNamespace", "CreateOwnedNamespace"):
            owned, change = kind == "CreateOwnedNamespace", change if kind == "CreateNamespace" else change[0]
            need(change["mode"] == "Linearizable" or not owned, "policy")
            need(change["mode"] == "Siblings" or change["write_quorum"] is None, "policy")
            need(all(one["dropped"] or one["name"] != change["name"] for one in self.namespaces.values()), "policy")
            need(len(self.namespaces) < POLICY_ITEMS, "policy")
            current = self.voters[-1]
            replicas = min(current["replicas"], len(current["members"]))
            need(change["write_quorum"] is None or 1 <= change["write_quorum"] <= replicas, "policy")
        elif kind == "DropNamespace":
            need(change in self.namespaces and not self.namespaces[change]["dropped"], "policy")
        elif kind == "AddGrant":
            need(change["namespace"] in (None, self.cluster) or change["namespace"] in self.namespaces, "policy")
            need(len(unhex(change["prefix"])) <= KEY_LEN and change not in held, "policy")
            need(len(self.grants) < POLICY_ITEMS, "policy")
        else:
            need(change in held, "policy")

    def apply_policy(self, kind, change, entry):
        revision = int(entry["number"])
        if kind in ("CreateNamespace", "CreateOwnedNamespace"):
            space, owner = (change, None) if kind == "CreateNamespace" else change
            created = {
                "name": space["name"], "mode": space["mode"], "owned_by": owner, "created": revision, "dropped": None,
            }
            self.namespaces[entry_hash(entry)] = created
        elif kind == "DropNamespace":
            self.namespaces[change]["dropped"] = revision
        elif kind == "AddGrant":
            self.grants.append({"grant": change, "added": revision, "removed": None})
        else:
            next(one for one in self.grants if one["removed"] is None and one["grant"] == change)["removed"] = revision

    def check_votes(self, decided):
        entry, ballot = decided["signed"]["entry"], decided["ballot"]
        epoch = int(ballot["config_epoch"])
        need(1 <= epoch <= len(self.voters), "no-majority")
        need(entry["chain"] != "Voters" or epoch + 1 == int(entry["number"]), "no-majority")
        electorate = self.voters[epoch - 1]["electorate"]
        counted = set()
        for actor, signature in decided["votes"]:
            member = self.member_at(actor, epoch)
            need(member and member["id"] in electorate and actor not in counted, "no-majority")
            vote = {
                "cluster": self.cluster, "chain": entry["chain"], "number": entry["number"], "ballot": ballot,
                "entry": entry_hash(entry), "actor": actor,
            }
            message = VOTE + VOTE_FORM.write(vote)
            need(verifies(unhex(member["key"]), message, unhex("".join(signature))), "no-majority")
            counted.add(actor)
        need(2 * len(counted) > len(electorate), "no-majority")

    def member_at(self, actor, epoch):
        if not 1 <= epoch <= len(self.voters):
            return None
        members = self.voters[epoch - 1]["members"]
        return next((one for one in members if actor_id(self.cluster, one["id"], one["incarnation"]) == actor), None)

    def may(self, who, right, namespace, key, revision):
        space = self.namespaces.get(namespace)
        if namespace != self.cluster and (
            not space or space["created"] > revision or (space["dropped"] and space["dropped"] <= revision)
        ):
            return False
        for one in self.grants:
            grant = one["grant"]
            if (
                one["added"] <= revision
                and (one["removed"] is None or revision < one["removed"])
                and grant["author"] in (None, who)
                and grant["namespace"] in (None, namespace)
                and unhex(key).startswith(unhex(grant["prefix"]))
                and all(grant["rights"][each] for each in right)
            ):
                return True
        return False

    def may_write(self, write, revision):
        right = "elect" if write["namespace"] == self.cluster else "write"
        return self.may(write["author"], [right], write["namespace"], write["key"], revision)

    def mode(self, namespace):
        if namespace == self.cluster:
            return "Linearizable"
        space = self.namespaces.get(namespace)
        need(space and not space["dropped"], "unknown-namespace")
        return space["mode"]

    def is_register(self, namespace):
        space = self.namespaces.get(namespace)
        return namespace == self.cluster or bool(space) and space["mode"] == "Linearizable"

    def check_stamp(self, signed, objekt):
        stamp, proof = signed
        need(stamp["cluster"] == self.cluster, "cluster")
        need(stamp["object"] == objekt, "stamp-object")
        epoch = int(stamp["config_epoch"])
        need(epoch <= self.lengths["Voters"] and int(stamp["policy_revision"]) <= self.lengths["Policy"], "needs-entry")
        member = self.member_at(stamp["actor"], epoch)
        need(member, "unknown-actor")
        leaf = derived("stamp", STAMP.write(stamp))
        check_proof(proof, unhex(member["key"]), unhex(self.cluster), leaf, "stamp-signature")

    def check_evidence(self, first, second):
        need(dot(first[0]) == dot(second[0]) and first[0] != second[0], "no-evidence")
        for signed in (first, second):
            self.check_stamp(signed, signed[0]["object"])

    def check_author(self, signed, value):
        need(signed[0]["cluster"] == self.cluster, "cluster")
        check_signed_write(signed, "author-signature")
        check_value(signed[0], value)

    def check_copy(self, version, value):
        need(not self.is_register(version["signed"][0]["namespace"]), "mode")
        self.check_version(version, value)

    def check_version(self, version, value):
        write = version["signed"][0]
        need(version["stamps"], "no-stamp")
        for signed in version["stamps"]:
            need(signed[0]["write"] == write_id(write), "stamp-object")
            self.check_stamp(signed, object_id(write["namespace"], write["key"]))
            need(self.may_write(write, int(signed[0]["policy_revision"])), "no-right")
        self.check_author(version["signed"], value)


def chain_of(entries):
    decided = [decode(DECIDED, unhex(entry["encoded"])) for entry in entries]
    config = Configuration(decided[0])
    for one in decided[1:]:
        config.extend(one)
    config.decided = decided
    return config
