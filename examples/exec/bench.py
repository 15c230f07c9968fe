#!/usr/bin/env python3
"""The bench of both examples: what the conformance suite does to the folder of users behind the adapter's back.

    mesh conformance --exec python/adapter.py --bench bench.py --settings settings.json

It never ships with an adapter. The folder is theirs: a JSON file for each login, and a line for each change.
"""
import base64, hashlib, json, os, secrets, sys, time


def path(login):
    return os.path.join(FOLDER, hashlib.sha256(login.encode()).hexdigest() + ".json")


def load(login):
    try:
        with open(path(login), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def change(login, /, **fields):
    user = {**(load(login) or {}), **fields}
    with open(path(login) + ".bench", "w", encoding="utf-8") as file:
        json.dump(user, file)
    os.replace(path(login) + ".bench", path(login))
    return {}


def scrypt(password, cost=4, salt=None):
    salt = salt or secrets.token_bytes(16)
    key = hashlib.scrypt(password.encode(), salt=salt, n=2**cost, r=8, p=1, dklen=32, maxmem=2**28)
    return f"scrypt${cost}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def make(r):
    rights = ["read"]
    return change(r["login"], login=r["login"], enabled=True, mark=None, rights=rights, hash=scrypt(r["password"]))


def lets_in(r):
    user, fits = load(r["login"]), False
    if user and user["enabled"]:
        for stored in filter(None, (user["hash"], user.get("second"))):
            _, cost, salt, _ = stored.split("$")
            fits = fits or scrypt(r["password"], int(cost), base64.b64decode(salt)) == stored
    with open(os.path.join(FOLDER, "logins"), "a", encoding="utf-8") as file:
        file.write(json.dumps({"at": time.time(), "login": r["login"], "let_in": fits}) + "\n")
    return {"lets_in": fits}


def data(login):
    return os.path.join(FOLDER, "data", hashlib.sha256(login.encode()).hexdigest())


def leave_data(r):
    os.makedirs(data(r["login"]))
    with open(os.path.join(data(r["login"]), "file"), "w", encoding="utf-8") as file:
        file.write("what it wrote")
    return {"name": r["login"]}


def drop_login(r):
    os.unlink(path(r["login"]))
    return {}


def traces(_):
    text = ""
    for folder, _, names in os.walk(FOLDER):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text += file.read()
    return {"text": text}


def writes(_):
    try:
        with open(os.path.join(FOLDER, "changes"), encoding="utf-8") as file:
            return {"count": sum(1 for _ in file)}
    except FileNotFoundError:
        return {"count": 0}


def values(_):
    return {
        "values": {"rights": ["read", "write"]},
        "other_values": {"rights": ["write", "delete"]},
        "refused_values": {"rights": ["fly"]},
        "canary": {"rights": []},
        "data": ["{consumer}"],
        "tells": ["attempts"],
    }


DO = {
    "values": values, "make": make, "lets_in": lets_in, "drop_login": drop_login, "traces": traces, "writes": writes,
    "exists": lambda r: {"exists": load(r["login"]) is not None},
    "set_password": lambda r: change(r["login"], hash=scrypt(r["password"]), second=None),
    "switch_off": lambda r: change(r["login"], enabled=False),
    "switch_on": lambda r: change(r["login"], enabled=True),
    "take_rights": lambda r: change(r["login"], rights=[x for x in load(r["login"])["rights"] if x != "read"]),
    "add_rights": lambda r: change(r["login"], rights=sorted({*load(r["login"])["rights"], "delete"})),
    "strip_mark": lambda r: change(r["login"], mark=None),
    "replace_mark": lambda r: change(r["login"], mark=r["mark"]),
    "leave_data": leave_data,
    "has_data": lambda r: {"has_data": os.path.exists(data(r["login"]))},
    "uses_data": lambda r: {"uses_data": lets_in(r)["lets_in"] and os.path.exists(data(r["owner"]))},
    "failed_logins": lambda r: {"count": 0},  # nobody logs in to a folder
}


def say(line):
    print(json.dumps(line), flush=True)


hello = json.loads(sys.stdin.buffer.readline())
FOLDER = hello["settings"]["folder"]
os.makedirs(FOLDER, mode=0o700, exist_ok=True)
say({"version": 1, "name": "a folder of users"})
for line in sys.stdin.buffer:
    request = json.loads(line)
    do = DO.get(request["do"])
    if do is None:
        say({"id": request["id"], "error": {"class": "cannot", "message": "nothing of the kind"}})
    else:
        say({"id": request["id"], "ok": do(request)})
