"""States of proto-docs/registers.md: their form, their hash, how a write stands to them, what changes make of them."""

from encoding import U64, List, Option, Struct, Tuple
from model import H32, KEY, STAMP, TERM, VERSION, need, rising, write_id
from signing import derived

RECENT, VOID = 32, 32


def check_state(state):
    version, generation = state["version"], int(state["generation"])
    if version is None:
        need(generation == 0, "state")
    else:
        write = version["signed"][0]
        need(int(write["generation"]) == generation and len(version["stamps"]) == 1, "state")
        need(version["stamps"][0][0]["write"] == write_id(write), "state")
        need(state["recent"] and state["recent"][0] == write_id(write), "state")
    need(len(state["recent"]) == min(generation, RECENT), "state")
    void = [(int(at), one) for at, one in state["void"]]
    need(rising(void) and len(void) <= VOID and all(at > generation for at, _ in void), "state")


BOUND = Struct({"resource": KEY, "term": TERM})
STATE = Struct(
    {
        "generation": U64, "version": Option(VERSION), "bound": Option(BOUND), "recent": List(H32),
        "void": List(Tuple(U64, H32)),
    },
    check_state,
)
EMPTY = {"generation": 0, "version": None, "bound": None, "recent": [], "void": []}


def hashed(state):
    """The bytes whose hash is the state's."""
    version = state["version"]
    brief = version and [
        write_id(version["signed"][0]), [derived("stamp", STAMP.write(stamp)).hex() for stamp, _ in version["stamps"]],
    ]
    form = Struct({**STATE.fields, "version": Option(Tuple(H32, List(H32)))})
    return form.write({**state, "version": brief})


def state_hash(state):
    return derived("register", hashed(state)).hex()


def order(term):
    return int(term["recovery"]), int(term["number"])


def keeps_out(state, fence, owned_by):
    """What the key is bound to, if that keeps out a write with this fence."""
    bound = state["bound"]
    if bound is None and owned_by is not None:
        bound = {"resource": owned_by, "term": {"recovery": 0, "number": 0}}
    if bound is None:
        return None
    if fence and fence["resource"] == bound["resource"] and order(fence["term"]) >= order(bound["term"]):
        return None
    return bound


def standing(state, write, owned_by):
    generation, current, one = int(state["generation"]), int(write["generation"]), write_id(write)
    if current <= generation:
        age = generation - current
        if age >= len(state["recent"]):
            return "Expired"
        return "Applied" if state["recent"][age] == one else "Refused"
    bound = keeps_out(state, write["fence"], owned_by)
    if bound:
        return {"Fenced": bound}
    if [write["generation"], one] in state["void"]:
        return "Refused"
    if current > generation + 1:
        return "Ahead"
    version = state["version"]
    return "Open" if write["parents"] == ([write_id(version["signed"][0])] if version else []) else "Refused"


def raised(bound, fence):
    terms = [fence["term"]] + ([bound["term"]] if bound else [])
    return {"resource": fence["resource"], "term": max(terms, key=order)}


def apply(state, version):
    write = version["signed"][0]
    need(standing(state, write, None) == "Open", "standing")
    binds = write["fence"] and write["namespace"] != write["cluster"]
    return {
        "generation": write["generation"],
        "version": version,
        "bound": raised(state["bound"], write["fence"]) if binds else state["bound"],
        "recent": ([write_id(write)] + state["recent"])[:RECENT],
        "void": [one for one in state["void"] if int(one[0]) > int(write["generation"])],
    }


def seal(state, fence):
    need(keeps_out(state, fence, None) is None, "fenced")
    return {**state, "bound": raised(state["bound"], fence)}


def forbid(state, generation, one):
    if [generation, one] in state["void"] or int(generation) <= int(state["generation"]):
        return state
    need(len(state["void"]) < VOID, "void")
    void = sorted(state["void"] + [[generation, one]], key=lambda pair: (int(pair[0]), pair[1]))
    return {**state, "void": void}


def check_held(config, state, value):
    """What the gate says of a state that another node sent."""
    version = state["version"]
    if version is None:
        need(value == b"", "value")
        return
    for stamp, _ in version["stamps"]:
        need(not stamp["past"] and int(stamp["previous"]) + 1 == int(stamp["counter"]), "past")
    need(config.is_register(version["signed"][0]["namespace"]), "mode")
    config.check_version(version, value)
