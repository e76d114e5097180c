"""Frames and the registry of messages of proto-docs/wire.md."""

from encoding import (
    U8, U16, U32, U64, Array, Bool, ByteList, Enum, List, Option, Refused, Result, Struct, Text, Tuple, Unit,
    decode,
)
from ownership import RENEWAL_FORM, SEAL_FORM, SIGNED_VOTE, TENURE_PROOF
from registers import BOUND, STATE
from model import (
    BALLOT, CHAIN, DECIDED, H16, H32, KEY, MODE, PUBLIC_KEY, SIGNATURE, SIGNED_ENTRY, SIGNED_STAMP, SIGNED_WRITE, VERSION,
    VERSIONS, need,
)

FRAME_LEN = 2 << 20

VALUES = List(U64, lambda lens: need(len(lens) <= VERSIONS, "values"))
STAMPS = List(SIGNED_STAMP)
IDS = List(H32)
PAIRS = List(Tuple(H32, H32))
COPIES = Struct({"copies": U8, "needed": U8})
HAVE = Struct({"have": Array(U64, 3)})
CONFIG = Struct({"entries": List(DECIDED), "lengths": Array(U64, 3)})
ON_CONFLICT = Enum("Refuse", "KeepBoth")
WHERE = {"namespace": H32, "key": KEY}
LISTED = Struct({"version": VERSION, "live": Bool(), "inline": Bool()})
LISTED_KEY = Struct({"key": KEY, "live": List(Tuple(U64, H32, Option(U64)))})
KNOWN = Enum("Nothing", "Live", ("Superseded", H32))
PLACE = {"chain": CHAIN, "number": U64, "ballot": BALLOT}

PROVED = Option(TENURE_PROOF)
AT = {"operation": U64, **WHERE}
VOTED = Option(SIGNED_VOTE)

# number: (name, fields, the field that announces values)
REQUESTS = {
    1: ("Submit", Struct({"signed": SIGNED_WRITE, "on_conflict": ON_CONFLICT, "presented": STAMPS, "tenure": PROVED, "value": VALUES}), "value"),
    2: ("Read", Struct({**WHERE, "local": Bool(), "history": Bool()}), None),
    3: ("ReadValue", Struct({**WHERE, "version": H32}), None),
    4: ("AskOutcome", Struct({**WHERE, "write": H32}), None),
    5: (
        "List",
        Struct({"namespace": H32, "prefix": ByteList(), "after": Option(KEY), "limit": U32, "conflicts": Bool()}),
        None,
    ),
    6: ("Propose", Struct({"signed": SIGNED_ENTRY}), None),
    7: ("AskConfig", HAVE, None),
    8: ("AskStatus", Struct({}), None),
    9: ("AskVerdict", Struct({"signed": SIGNED_WRITE, "forbid": Bool()}), None),
    10: ("Seal", Struct({"seal": SEAL_FORM, "signature": SIGNATURE, "tenure": PROVED}), None),
    11: ("Campaign", Struct({"signed": SIGNED_WRITE, "tenure": PROVED, "afresh": Bool(), "value": VALUES}), "value"),
    12: ("Observe", Struct({"resource": KEY}), None),
    13: ("Renew", Struct({"renewal": RENEWAL_FORM, "key": PUBLIC_KEY, "signature": SIGNATURE}), None),
}
REPLIES = {
    101: (
        "Submitted",
        Enum(
            ("Applied", Struct({"stamps": STAMPS, "siblings": IDS})),
            ("Refused", Struct({"current": Option(List(VERSION))})),
            ("Incomplete", COPIES),
            ("Fenced", BOUND),
            "Forgotten",
        ),
        None,
    ),
    102: ("Versions", Struct({"versions": List(LISTED), "values": VALUES, "evidence": STAMPS}), "values"),
    103: ("Value", Struct({"value": VALUES}), "value"),
    104: (
        "Outcome",
        Enum(
            ("Applied", Struct({"stamps": STAMPS, "siblings": IDS, "superseded_by": Option(H32)})),
            ("Incomplete", COPIES),
            "Unknown",
        ),
        None,
    ),
    105: ("Page", Struct({"keys": List(LISTED_KEY), "next": Option(KEY)}), None),
    106: ("Proposed", Enum("Chosen", ("Refused", Struct({"why": Text()})), "Unknown"), None),
    107: ("Config", CONFIG, None),
    108: (
        "Status",
        Struct(
            {
                "version": Text(), "member": H16, "incarnation": H16, "counts": Result(Unit(), Text()), "synced": U64,
                "chains": Array(U64, 3), "peers": List(Tuple(H16, Bool())), "counters": List(Tuple(Text(), U64)),
            }
        ),
        None,
    ),
    109: (
        "Failure",
        Enum(
            ("Denied", Text()), "UnknownNamespace", ("Mode", MODE), ("Expired", Struct({"epoch": U64, "now": U64})),
            ("UnknownParents", IDS), "Generation", ("TooManySiblings", U32), ("Rejected", Text()), ("Malformed", Text()),
            ("Unavailable", Text()), "Overloaded", "DiskFull", ("NotBuilt", Text()),
            "NeedsTenure",
        ),
        None,
    ),
    110: (
        "Verdict",
        Enum(
            ("Applied", Struct({"stamps": STAMPS, "superseded_by": Option(H32)})),
            ("Refused", Struct({"current": Option(VERSION)})),
            ("Fenced", BOUND), "Open", "Forgotten", "Unknown",
        ),
        None,
    ),
    111: ("Sealed", Struct({"result": Result(Unit(), BOUND), "version": Option(VERSION), "value": VALUES}), "value"),
    112: (
        "Campaigned",
        Struct(
            {
                "result": Enum(
                    ("Chosen", Struct({"ballot": BALLOT, "votes": List(SIGNED_VOTE)})),
                    ("Running", Struct({"left_ms": U64})),
                    "Refused", "Incomplete",
                ),
                "version": Option(VERSION), "value": VALUES,
            }
        ),
        "value",
    ),
    113: (
        "Observed",
        Struct(
            {
                "version": Option(VERSION), "ballot": Option(BALLOT), "votes": List(SIGNED_VOTE), "left_ms": U64,
                "value": VALUES,
            }
        ),
        "value",
    ),
    114: (
        "Renewed",
        Enum(
            ("Heard", Struct({"ballot": BALLOT})), "OtherTenure", ("TakeoverPromised", Struct({"ballot": BALLOT})),
            "Repeated", "Stalled",
        ),
        None,
    ),
}
FORWARD = {"kind": U16, "header": ByteList(), "values": VALUES}
PEERS = {
    201: (
        "Exchange",
        Struct(
            {
                "operation": U64, **WHERE, "live": IDS, "about": Option(H32), "versions": List(VERSION), "values": VALUES,
                "superseded": PAIRS, "fetch": Bool(),
            }
        ),
        "values",
    ),
    202: (
        "Exchanged",
        Struct(
            {
                "operation": U64, **WHERE, "counts": Bool(), "live": IDS, "about": KNOWN, "superseded": PAIRS,
                "versions": List(VERSION), "values": VALUES,
            }
        ),
        "values",
    ),
    203: ("Forward", Struct({"operation": U64, "client": PUBLIC_KEY, **FORWARD}), "values"),
    204: ("Forwarded", Struct({"operation": U64, **FORWARD}), "values"),
    205: ("Prepare", Struct(PLACE), None),
    206: ("Promise", Struct({**PLACE, "answer": Result(Option(Tuple(BALLOT, SIGNED_ENTRY)), BALLOT)}), None),
    207: ("Accept", Struct({"ballot": BALLOT, "signed": SIGNED_ENTRY}), None),
    208: ("Accepted", Struct({**PLACE, "entry": H32, "answer": Result(Tuple(H16, SIGNATURE), BALLOT)}), None),
    209: ("Learn", Struct({"decided": DECIDED}), None),
    210: ("Recall", Struct({"start": U64, "chains": HAVE}), None),
    211: ("Recalled", Struct({"start": U64, "incarnation": H16, "batch": U64}), None),
    212: ("AskConfig", HAVE, None),
    213: ("Config", CONFIG, None),
    214: ("Evidence", Struct({"first": SIGNED_STAMP, "second": SIGNED_STAMP}), None),
    215: ("PrepareRegister", Struct({**AT, "ballot": BALLOT, "takeover": Bool()}), None),
    216: (
        "PromisedRegister",
        Struct(
            {
                **AT, "ballot": BALLOT,
                "answer": Enum(("Yes", Option(Tuple(BALLOT, STATE))), ("Higher", BALLOT), ("Running", U64), "Abstains"),
                "value": VALUES,
            }
        ),
        "value",
    ),
    217: (
        "AcceptRegister",
        Struct(
            {
                **AT, "ballot": BALLOT, "next": Option(BALLOT), "chosen": Option(BALLOT), "state": STATE, "value": VALUES,
            }
        ),
        "value",
    ),
    218: (
        "AcceptedRegister",
        Struct(
            {
                **AT, "ballot": BALLOT,
                "answer": Enum(
                    ("Yes", Struct({"next": Bool(), "vote": VOTED})), ("Higher", BALLOT), "OtherBytes", "Abstains",
                ),
            }
        ),
        None,
    ),
    219: ("AskRegister", Struct({**AT, "known": H32}), None),
    220: (
        "ShowRegister",
        Struct(
            {
                **AT,
                "shown": Option(
                    Struct(
                        {
                            "ballot": Option(BALLOT), "promised": Option(BALLOT), "hash": H32, "state": Option(STATE), "vote": VOTED, "left_ms": U64,
                        }
                    )
                ),
                "value": VALUES,
            }
        ),
        "value",
    ),
    221: ("ChosenRegister", Struct({**WHERE, "ballot": BALLOT}), None),
}
DIRECTIONS = {"request": REQUESTS, "reply": REPLIES, "peer": PEERS}
ENVELOPE = Struct({"incarnation": H16, "synced": U64})
ENVELOPE_LEN = 24


def split(data):
    """The kind, header and body of one frame."""
    need(len(data) >= 11, "short")
    need(data[0] == 1, "version")
    kind = int.from_bytes(data[1:3], "big")
    header, body = int.from_bytes(data[3:7], "big"), int.from_bytes(data[7:11], "big")
    need(header + body <= FRAME_LEN, "too-large")
    need(len(data) >= 11 + header + body, "short")
    need(len(data) == 11 + header + body, "left-over")
    return kind, data[11 : 11 + header], data[11 + header :]


def join(kind, header, body):
    return b"\1" + U16.write(kind) + U32.write(len(header)) + U32.write(len(body)) + header + body


def read(direction, data):
    """(kind, envelope or None, message, body) of one frame."""
    kind, header, body = split(data)
    envelope = None
    if direction == "peer":
        envelope, header = decode(ENVELOPE, header[:ENVELOPE_LEN]), header[ENVELOPE_LEN:]
    if kind not in DIRECTIONS[direction]:
        raise Refused("kind")
    _, form, values = DIRECTIONS[direction][kind]
    message = decode(form, header)
    announced = [int(one) for one in message[values]] if values else []
    need(sum(announced) == len(body), "body")
    return kind, envelope, message, body


def write(direction, kind, envelope, message, body):
    _, form, _ = DIRECTIONS[direction][kind]
    header = (ENVELOPE.write(envelope) if direction == "peer" else b"") + form.write(message)
    return join(kind, header, body)
