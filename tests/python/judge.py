"""Judges proto-docs/vectors with an implementation that was written from proto-docs alone.

Every valid case is recomputed, byte for byte; every invalid case must be refused, for its reason. Then
the judge itself is judged: each hexadecimal text of each valid case is changed in one digit, one at a
time, and every such wrong vector must be noticed.
"""

import copy
import json
import pathlib
import sys

import encoding
import model
import ownership
import registers
import signing
import wire
from encoding import Refused, decode, unhex

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "proto-docs" / "vectors"
FILES = [
    "certificates", "chains", "encoding", "frames", "hashing", "ownership", "placement", "registers", "siblings",
    "signatures", "stamps", "versions", "writes",
]

# Inputs on which a case's result need not depend, so that a change of them can go unnoticed.
FREE = {
    ("siblings", "index"), ("siblings", "distrusted"), ("stamps", "parents"), ("stamps", "actor"),
    ("registers", "owned_by"), ("registers", "fence"), ("registers", "id"),
}


class Wrong(Exception):
    """A vector does not say what the documents say."""


def same(what, found, claimed):
    if found != claimed:
        raise Wrong(f"{what}: computed {found}, the vector says {claimed}")


def long_bytes(value):
    """Bytes as a text, or as pieces that repeat for every number of a range."""
    if isinstance(value, str):
        return bytes.fromhex(value)
    out = []
    for piece in value:
        if isinstance(piece, str):
            out.append(bytes.fromhex(piece))
            continue
        for number in range(piece["from"], piece["to"] + 1):
            for part in piece["each"]:
                out.append(bytes.fromhex(part) if isinstance(part, str) else number.to_bytes(part, "big"))
    return b"".join(out)


def round_trip(form, fields, encoded):
    same("encoded", form.write(fields).hex(), encoded)
    same("fields", decode(form, unhex(encoded)), fields)


TYPES = {
    "u8": encoding.U8, "u16": encoding.U16, "u32": encoding.U32, "u64": encoding.U64, "bool": encoding.Bool(),
    "option u8": encoding.Option(encoding.U8), "list u64": encoding.List(encoding.U64), "text": encoding.Text(),
    "key": model.KEY, "name": model.NAME, "rights": model.RIGHTS, "mode": model.MODE, "on conflict": wire.ON_CONFLICT,
    "body": model.BODY, "result": encoding.Result(encoding.Unit(), encoding.Text()), "range": model.RANGE,
    "public key": model.PUBLIC_KEY, "past": model.PAST,
}


def judge_encoding(case, chains):
    form = TYPES[case["kind"]]
    if "value" in case:
        round_trip(form, case["value"], case["hex"])
    else:
        decode(form, long_bytes(case["hex"]))


def judge_hashing(case, chains):
    kind = case["kind"]
    if kind in ("hash", "value"):
        data = unhex(case["input"])
        context = {text: name for name, text in signing.CONTEXTS.items()}.get(case.get("context"))
        found, claimed = (signing.plain(data) if kind == "value" else signing.derived(context, data)).hex(), case["hash"]
    else:
        parts = case["parts"]
        found = {
            "actor": lambda: model.actor_id(*parts),
            "object": lambda: model.object_id(*parts),
            "cluster": lambda: signing.derived("entry", unhex(parts[0])).hex(),
            "namespace": lambda: signing.derived("entry", unhex(parts[0])).hex(),
            "write": lambda: signing.derived("write", unhex(parts[0])).hex(),
        }[kind]()
        claimed = case["id"]
    if found != claimed:
        raise Refused("hash")


def judge_signatures(case, chains):
    kind = case["kind"]
    if kind == "public key":
        signing.check_key(unhex(case["hex"]))
    elif kind == "proof":
        signing.check_proof(case["proof"], unhex(case["key"]), unhex(case["cluster"]), unhex(case["leaf"]))
    else:
        seed, cluster, count = unhex(case["seed"]), unhex(case["cluster"]), len(case["levels"][0])
        same("key", signing.public_key(seed).hex(), case["key"])
        levels = signing.levels([unhex(leaf) for leaf in case["levels"][0]])
        same("levels", [[node.hex() for node in level] for level in levels], case["levels"])
        root = levels[-1][0]
        same("root", root.hex(), case["root"])
        message = signing.batch_message(cluster, count, root)
        same("message", message.hex(), case["message"])
        signature = signing.sign(seed, message).hex()
        same("number of proofs", len(case["proofs"]), count)
        for index, (proof, encoded) in enumerate(zip(case["proofs"], case["encoded"], strict=True)):
            expected = {
                "signature": signature, "count": count, "index": index,
                "path": [step.hex() for step in signing.path(levels, index)],
            }
            same("proof", expected, proof)
            round_trip(model.PROOF, proof, encoded)
            signing.check_proof(proof, unhex(case["key"]), cluster, levels[0][index])


def judge_writes(case, chains):
    kind = case["kind"]
    if kind == "signed write":
        model.check_signed_write(decode(model.SIGNED_WRITE, unhex(case["hex"])))
    elif kind == "value":
        model.check_value(decode(model.WRITE, unhex(case["hex"])), unhex(case["value"]))
    elif "fields" not in case:
        decode(model.WRITE, long_bytes(case["hex"]))
    else:
        write = case["fields"]
        round_trip(model.WRITE, write, case["encoded"])
        same("id", model.write_id(write), case["id"])
        same("object", model.object_id(write["namespace"], write["key"]), case["object"])
        signed = decode(model.SIGNED_WRITE, unhex(case["signed"]))
        same("signed", model.SIGNED_WRITE.write(signed).hex(), case["signed"])
        same("the write in signed", signed[0], write)
        same("fence", signed[2] is None, write["fence"] is None)
        message = signing.batch_message(unhex(write["cluster"]), 1, unhex(case["id"]))
        same("message", message.hex(), case["message"])
        same("signature", "".join(signed[1]["signature"]), case["signature"])
        model.check_signed_write(signed)
        model.check_value(write, unhex(case["value"]))


def judge_stamps(case, chains):
    kind = case["kind"]
    if kind == "past of":
        stamps = [decode(model.STAMP, unhex(parent)) for parent in case["parents"]]
        past = model.shown(model.past_of(stamps))
        same("past", past, case["past"])
        round_trip(model.PAST, past, case["encoded"])
    elif kind == "covers":
        past = model.ranges_of(decode(model.PAST, unhex(case["past"])))
        event = case["event"]
        same("covers", model.covers(past, case["actor"], event["after"], event["upto"]), case["covers"])
    elif kind == "past":
        decode(model.PAST, long_bytes(case["hex"]))
    elif kind == "signed stamp":
        stamp, proof = decode(model.SIGNED_STAMP, unhex(case["hex"]))
        leaf = signing.derived("stamp", model.STAMP.write(stamp))
        signing.check_proof(proof, unhex(case["key"]), unhex(stamp["cluster"]), leaf)
    elif "fields" not in case:
        decode(model.STAMP, long_bytes(case["hex"]))
    else:
        stamp = case["fields"]
        round_trip(model.STAMP, stamp, case["encoded"])
        leaf = signing.derived("stamp", model.STAMP.write(stamp))
        same("hash", leaf.hex(), case["hash"])
        message = signing.batch_message(unhex(stamp["cluster"]), 1, leaf)
        same("message", message.hex(), case["message"])
        signed, proof = decode(model.SIGNED_STAMP, unhex(case["signed"]))
        same("the stamp in signed", signed, stamp)
        same("signature", "".join(proof["signature"]), case["signature"])
        signing.check_proof(proof, unhex(case["key"]), unhex(stamp["cluster"]), leaf)


def judge_versions(case, chains):
    kind = case["kind"]
    if kind == "copy":
        version = decode(model.VERSION, unhex(case["version"]))
        chains[case["chains"]].check_copy(version, unhex(case["value"]))
    elif kind == "evidence":
        stamps = [decode(model.SIGNED_STAMP, unhex(case[name])) for name in ("first", "second")]
        chains[case["chains"]].check_evidence(*stamps)
    elif kind == "submission":
        presented = [decode(model.SIGNED_STAMP, unhex(stamp)) for stamp in case["presented"]]
        signed = decode(model.SIGNED_WRITE, unhex(case["signed"]))
        config, proof = chains[case["chains"]], proof_of(case)
        ownership.check_submission(config, signed, unhex(case["value"]), presented, proof)
    elif "fields" not in case:
        decode(model.VERSION, long_bytes(case["hex"]))
    else:
        version = case["fields"]
        round_trip(model.VERSION, version, case["encoded"])
        same("id", model.write_id(version["signed"][0]), case["id"])
        past = model.union([model.ranges_of(stamp["past"]) for stamp, _ in version["stamps"]])
        same("past", model.shown(past), case["past"])


def proof_of(case):
    return case["tenure"] and decode(ownership.TENURE_PROOF, unhex(case["tenure"]))


def judge_registers(case, chains):
    kind = case["kind"]
    if kind == "decode":
        decode(registers.STATE, unhex(case["hex"]))
        return
    if kind == "state":
        state = case["fields"]
        round_trip(registers.STATE, state, case["encoded"])
        same("hashed", registers.hashed(state).hex(), case["hashed"])
        same("hash", registers.state_hash(state), case["hash"])
        return
    state = decode(registers.STATE, unhex(case["state"]))
    if kind == "held":
        registers.check_held(chains[case["chains"]], state, unhex(case["value"]))
        return
    # The hash does not look at proofs, so a change of one shows only here.
    if state["version"]:
        write = state["version"]["signed"][0]
        model.check_signed_write(state["version"]["signed"])
        for stamp in state["version"]["stamps"]:
            chains["the example cluster"].check_stamp(stamp, model.object_id(write["namespace"], write["key"]))
    if kind == "standing":
        write = decode(model.WRITE, unhex(case["write"]))
        same("id", model.write_id(write), case["id"])
        same("hash", registers.state_hash(state), case["hash"])
        if registers.standing(state, write, case["owned_by"]) != case["standing"]:
            raise Refused("standing")
        return
    if kind == "apply":
        result = registers.apply(state, decode(model.VERSION, unhex(case["version"])))
    elif kind == "seal":
        result = registers.seal(state, decode(model.FENCE, unhex(case["fence"])))
    else:
        result = registers.forbid(state, case["generation"], case["id"])
    if registers.STATE.write(result).hex() != case["result"]:
        raise Refused("result")


def judge_ownership(case, chains):
    kind = case["kind"]
    if kind == "decode":
        decode(ownership.TENURE, unhex(case["hex"]))
    elif kind == "tenure":
        tenure, signed = decode(ownership.TENURE, unhex(case["encoded"])), decode(model.SIGNED_WRITE, unhex(case["signed"]))
        if "fields" in case:
            round_trip(ownership.TENURE, case["fields"], case["encoded"])
            same("id", model.write_id(signed[0]), case["id"])
            model.check_signed_write(signed)
        ownership.check_tenure(signed, tenure)
    elif kind in ownership.STATEMENTS:
        context, form = ownership.STATEMENTS[kind]
        round_trip(form, case["fields"], case["encoded"])
        message = context + unhex(case["encoded"])
        same("message", message.hex(), case["message"])
        if not signing.verifies(unhex(case["key"]), message, unhex(case["signature"])):
            raise Refused("signature")
    else:
        config = chains[case["chains"]]
        if kind == "campaign":
            signed = decode(model.SIGNED_WRITE, unhex(case["signed"]))
            ownership.check_campaign(config, signed, unhex(case["value"]), proof_of(case))
        elif kind == "seal":
            seal = decode(ownership.SEAL_FORM, unhex(case["seal"]))
            signing.check_key(unhex(case["sealer"]))
            ownership.check_seal(config, seal, unhex(case["signature"]), case["sealer"], proof_of(case))
        else:
            renewal = decode(ownership.RENEWAL_FORM, unhex(case["renewal"]))
            ownership.check_renewal(config, renewal, unhex(case["key"]), unhex(case["signature"]))


def pinned(chain, count):
    """The configuration that holds the first entries of the voters chain of `chain`, and nothing else."""
    voters = [entry for entry in chain.decided if entry["signed"]["entry"]["chain"] == "Voters"][:count]
    config = model.Configuration(voters[0])
    for decided in voters[1:]:
        config.extend(decided)
    return config


def judge_certificates(case, chains):
    kind = case["kind"]
    if kind == "decode":
        decode(ownership.CERTIFICATE, unhex(case["hex"]))
    elif kind == "file":
        data = ownership.from_text(case["text"])
        decode(ownership.CERTIFICATE, data)
        same("certificate", data.hex(), case["certificate"])
    elif kind == "gate":
        ownership.admit(case["terms"])
    elif kind == "message":
        same("cluster", chains[case["chains"]].cluster, case["cluster"])
        message = {name: case[name] for name in ("cluster", "tenure", "message")}
        signed = signing.FENCED_MESSAGE + ownership.MESSAGE_FORM.write(message)
        same("signed", signed.hex(), case.get("signed", signed.hex()))
        if not case["key"] or not signing.verifies(unhex(case["key"]), signed, unhex(case["signature"])):
            raise Refused("message-signature")
    else:
        certificate = decode(ownership.CERTIFICATE, unhex(case["certificate"]))
        if "fields" in case:
            round_trip(ownership.CERTIFICATE, case["fields"], case["certificate"])
        config = pinned(chains[case["chains"]], case["pinned"])
        proven = ownership.verify(config, case["floor"], certificate)
        if proven["resource"] != case["resource"]:
            raise Refused("resource")
        same("proven", proven, case["proven"])


def judge_siblings(case, chains):
    versions = [decode(model.VERSION, unhex(version)) for version in case["versions"]]
    config = chains["the example cluster"]
    for version in versions:
        model.check_signed_write(version["signed"])
        write = version["signed"][0]
        for stamp in version["stamps"]:
            same("the stamp's write", stamp[0]["write"], model.write_id(write))
            config.check_stamp(stamp, model.object_id(write["namespace"], write["key"]))
    live, superseded = model.live_and_superseded(versions, case["index"], case["distrusted"])
    same("superseded", superseded, case["superseded"])
    if live != case["live"]:
        raise Refused("live")


def judge_placement(case, chains):
    for member in case["members"]:
        same("score", model.score(member["id"], case["object"]), member["score"])
    if "electorate" in case:
        order = model.electorate(case["electorate"], case["object"])
    else:
        order = model.placement(case["members"], case["replicas"], case["object"])
    if order != case["order"]:
        raise Refused("order")


def judge_chains(case, chains):
    kind = case["kind"]
    if kind == "chain":
        config = None
        for entry in case["entries"]:
            fields = entry["fields"]
            signed = fields["signed"]
            round_trip(model.DECIDED, fields, entry["encoded"])
            round_trip(model.ENTRY, signed["entry"], entry["entry"])
            digest = model.entry_hash(signed["entry"])
            same("hash", digest, entry["hash"])
            if config:
                voted = len(config.voters)
                config.extend(decode(model.DECIDED, unhex(entry["encoded"])))
            else:
                config, voted = model.Configuration(decode(model.DECIDED, unhex(entry["encoded"]))), 0
            message = signed["admin"] and signing.batch_message(unhex(config.cluster), 1, unhex(digest)).hex()
            same("admin_message", message, entry["admin_message"])
            for (actor, signature), shown in zip(fields["votes"], entry["votes"], strict=True):
                vote = {
                    "cluster": config.cluster, "chain": signed["entry"]["chain"], "number": signed["entry"]["number"],
                    "ballot": fields["ballot"], "entry": digest, "actor": actor,
                }
                same("vote", (signing.VOTE + model.VOTE_FORM.write(vote)).hex(), shown["message"])
                same("vote's signature", "".join(signature), shown["signature"])
                same("voter's key", config.member_at(actor, voted)["key"], shown["key"])
        same("cluster", config.cluster, case["cluster"])
        same("lengths", list(config.lengths.values()), case["lengths"])
        same("heads", list(config.heads.values()), case["heads"])
        same("write epoch", config.lengths["WriteEpochs"] + 1, case["write_epoch"])
        live = [[one["name"], id, one["owned_by"]] for id, one in config.namespaces.items() if not one["dropped"]]
        same("namespaces", sorted(live), sorted(case["namespaces"]))
    elif kind == "vote":
        message = signing.VOTE + model.VOTE_FORM.write(case["fields"])
        same("message", message.hex(), case["message"])
        if not signing.verifies(unhex(case["key"]), message, unhex(case["signature"])):
            raise Refused("signature")
    elif kind == "found":
        model.Configuration(decode(model.DECIDED, unhex(case["hex"])))
    elif kind == "extend":
        copy.deepcopy(chains[case["chains"]]).extend(decode(model.DECIDED, unhex(case["hex"])))
    else:
        decode({"decided": model.DECIDED, "entry": model.ENTRY}[kind], unhex(case["hex"]))


def judge_frames(case, chains):
    direction = case["kind"]
    if "fields" not in case:
        wire.read(direction, unhex(case["hex"]))
        return
    kind, envelope, message, body = wire.read(direction, unhex(case["frame"]))
    same("number", kind, case["number"])
    same("the name of the kind", case["name"].split(",")[0], wire.DIRECTIONS[direction][kind][0])
    same("fields", message, case["fields"])
    same("header", wire.split(unhex(case["frame"]))[1].hex(), case["header"])
    same("body", body.hex(), case["body"])
    same("frame", wire.write(direction, kind, envelope, case["fields"], body).hex(), case["frame"])


JUDGES = {name: globals()[f"judge_{name}"] for name in FILES}


def verdict(name, case, chains):
    """None if the case is as the documents say, else what is wrong."""
    expected = case.get("reason")
    try:
        JUDGES[name](case, chains)
    except Refused as refused:
        if expected is None:
            return f"refused: {refused.reason}"
        return None if refused.reason == expected else f"refused for {refused.reason}, the vector says {expected}"
    except Wrong as wrong:
        return str(wrong)
    return None if expected is None else "an invalid case was taken"


def noticed(name, case, chains):
    """Whether a planted wrong case is noticed: also by bytes that have no meaning at all."""
    try:
        return verdict(name, case, chains) is not None
    except Exception:
        return True


def changed(value):
    """Copies of a JSON value, each with one hexadecimal text changed in one digit."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("name", "kind", "reason", "chains"):
                continue
            for other in changed(item):
                yield {**value, key: other}
    elif isinstance(value, list):
        for at, item in enumerate(value):
            for other in changed(item):
                yield value[:at] + [other] + value[at + 1 :]
    elif isinstance(value, str) and len(value) >= 2 and set(value) <= set("0123456789abcdef"):
        at = len(value) // 2
        yield value[:at] + ("0" if value[at] != "0" else "1") + value[at + 1 :]


def main():
    passed, failed, planted, missed = 0, 0, 0, 0
    files = {name: json.loads((VECTORS / f"{name}.json").read_text()) for name in FILES}
    stray = {path.stem for path in VECTORS.glob("*.json")} - set(FILES)
    chains = {}
    for case in files["chains"]["valid"]:
        if case["kind"] == "chain":
            try:
                chains[case["name"]] = model.chain_of(case["entries"])
            except Refused as refused:
                print(f"chains: {case['name']}: refused: {refused.reason}")
    for name in sorted(stray):
        failed += 1
        print(f"{name}.json: nobody judges it")
    for name, file in files.items():
        for group in ("valid", "invalid"):
            for case in file[group]:
                problem = verdict(name, case, chains)
                if (group == "invalid") != ("reason" in case):
                    problem = "in the wrong group"
                passed, failed = passed + (problem is None), failed + (problem is not None)
                if problem:
                    print(f"{name}.json: {case['name']}: {problem}")
        if len(file["invalid"]) < len(file["valid"]):
            failed += 1
            print(f"{name}.json: fewer invalid cases than valid ones")
        for case in file["valid"]:
            for wrong in changed(case):
                planted += 1
                where = next(key for key in case if case[key] != wrong[key])
                if not noticed(name, wrong, chains) and (name, where) not in FREE:
                    missed += 1
                    print(f"{name}.json: {case['name']}: a change of {where} was not noticed")
        for case in file["invalid"]:
            planted += 1
            if not noticed(name, {**case, "reason": "another reason"}, chains):
                missed += 1
                print(f"{name}.json: {case['name']}: another reason was not noticed")
    judged = {case["number"] for case in files["frames"]["valid"]}
    for kinds in wire.DIRECTIONS.values():
        for kind in set(kinds) - judged:
            failed += 1
            print(f"frames.json: no frame of kind {kind}")
    print(f"{planted} planted wrong vectors, {missed} not noticed")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or missed or not passed or not planted else 0


if __name__ == "__main__":
    sys.exit(main())
