#!/usr/bin/env python3
"""A Meshkeeper adapter in Python: each login is a JSON file in a folder, its password a scrypt hash.

The protocol is docs/spec/exec-adapter.md. `settings` of the provider: `folder`, and `cost` (of scrypt, as a
power of two; 14 unless said). Values of a consumer: `rights`, a list of read, write, delete.
"""
import base64, hashlib, hmac, json, os, secrets, sys, time

RIGHTS = {"read", "write", "delete"}
KEY, PROVEN = secrets.token_bytes(32), {}  # what was proven before needs no slow hash again


class Trouble(Exception):
    """An answer that says no: class, message, and the field of the values that it is about."""


def path(login):
    return os.path.join(FOLDER, hashlib.sha256(login.encode()).hexdigest() + ".json")


def load(login):
    try:
        with open(path(login), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def save(what, login, user):
    """Whole or not at all: a new file takes the old one's place. Each change is a line in `changes`."""
    if user is None:
        os.unlink(path(login))
    else:
        draft = f"{path(login)}.{secrets.token_hex(8)}"
        with open(os.open(draft, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            json.dump(user, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path(login))
    with open(os.path.join(FOLDER, "changes"), "a", encoding="utf-8") as file:
        file.write(json.dumps({"at": int(time.time()), "what": what, "login": login}) + "\n")


def scrypt(password, cost, salt):
    key = hashlib.scrypt(password.encode(), salt=salt, n=2**cost, r=8, p=1, dklen=32, maxmem=2**28)
    return f"scrypt${cost}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def fits(stored, password):
    tag = hmac.digest(KEY, password.encode(), "sha256")
    if stored and PROVEN.get(stored) != tag:
        _, cost, salt, _ = stored.split("$")
        if not hmac.compare_digest(stored, scrypt(password, int(cost), base64.b64decode(salt))):
            return False
        PROVEN[stored] = tag
    return bool(stored)


def rights(values):
    if values.keys() - {"rights"}:
        raise Trouble("refused_value", "the only key is `rights`", "values")
    unknown = set(values.get("rights", [])) - RIGHTS
    if unknown:
        raise Trouble("refused_value", f"no such right: {sorted(unknown)[0]}", "rights")
    return set(values.get("rights", []))


def stored(user):
    return [one for one in (user["hash"], user.get("second")) if one]


def asked(wish):
    """The password, and while it is changed, another one that is valid beside it."""
    return [one for one in (wish.get("password"), wish.get("second_password")) if one is not None]


def seen(user, wish):
    want, have = asked(wish), stored(user)
    fit = sum(any(fits(one, password) for one in have) for password in want)
    if not want:
        return "unknown"
    if fit == len(want):
        return "fits" if len(have) == fit else "fits_among_others"
    return "one_fits" if fit else "differs"


def holds(wish):
    user, wanted = load(wish["login"]), rights(wish["values"])
    if user is None:
        return {"found": False}
    has = set(user["rights"])
    return {
        "found": True, "enabled": user["enabled"], "mark": user["mark"], "proof": "verifier",
        "password": seen(user, wish),
        "missing": sorted(wanted - has), "surplus": sorted(has - wanted),
    }


def create(wish):
    login, user, wanted = wish["login"], load(wish["login"]), rights(wish["values"])
    if user and user["mark"] != wish["mark"] and not wish["take_over"]:
        raise Trouble("exists", "somebody else's login", "login")
    if user and seen(user, wish) == "fits":
        hashes = stored(user)
    else:
        hashes = [scrypt(password, COST, secrets.token_bytes(16)) for password in asked(wish)]
    more = set() if wish["exact"] or not user else set(user["rights"])
    new = {
        "login": login, "enabled": wish["enabled"], "mark": wish["mark"], "rights": sorted(wanted | more),
        "hash": hashes[0], "second": (hashes + [None])[1],
    }
    if new != {"second": None, **(user or {})}:
        save("create", login, new)
    return {}


def leaving(request):
    user = load(request["login"])
    if user and user["mark"] != request["mark"]:
        raise Trouble("exists", "the login does not carry our mark", "login")
    return user


def remove(request):
    if leaving(request):
        save("remove", request["login"], None)
    return {}


def disable(request):
    user = leaving(request)
    if user and user["enabled"]:
        save("disable", request["login"], {**user, "enabled": False})
    return {}


def each(request, item):
    for name in os.listdir(FOLDER):
        if name.endswith(".json"):
            with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                say({"id": request["id"], "item": item(json.load(file))})
    return {}


def listed(user):
    return {key: user[key] for key in ("login", "mark", "enabled")}


def found(user):
    return {**listed(user), "values": {"rights": user["rights"]}}


def say(line):
    print(json.dumps(line), flush=True)


OPS = {"holds": holds, "create": create, "remove": remove, "disable": disable}
OPS |= {"list": lambda request: each(request, listed), "find": lambda request: each(request, found)}
hello = json.loads(sys.stdin.buffer.readline())
if 1 not in hello["versions"]:
    sys.exit(say({"error": {"class": "cannot", "message": "this adapter speaks version 1"}}))
FOLDER, COST = hello["settings"]["folder"], hello["settings"].get("cost", 14)
os.makedirs(FOLDER, mode=0o700, exist_ok=True)
CAN = ["holds", "disable", "list", "find", "two_passwords"]
say({"version": 1, "name": "a folder of users (Python)", "capabilities": CAN})
for line in sys.stdin.buffer:
    request = json.loads(line)
    try:
        say({"id": request["id"], "ok": OPS[request["op"]](request)})
    except Trouble as trouble:
        kind, message, field = trouble.args
        say({"id": request["id"], "error": {"class": kind, "message": message, "field": field}})
    except OSError as error:
        say({"id": request["id"], "error": {"class": "busy", "message": f"{request['op']}: {error.strerror}"}})
