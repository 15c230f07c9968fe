#!/usr/bin/env python3
"""A program that does as its settings say, for the tests of the process around it."""
import json, os, sys, time

hello = json.loads(sys.stdin.readline())
how = hello["settings"]
log = open(how["log"], "a")


def note(what):
    log.write(what + "\n")
    log.flush()


def say(line):
    print(line if isinstance(line, str) else json.dumps(line), flush=True)


note(f"start {os.getpid()}")
note("args " + json.dumps(sys.argv[1:]))
note("env " + json.dumps(sorted(os.environ)))
note("admin " + json.dumps(hello.get("admin")))
note("cwd " + os.getcwd())
for line in how.get("before", []):
    say(line)
say(how.get("hello", {"version": 1, "name": "a double", "capabilities": ["holds", "hint", "levitate"]}))
for line in sys.stdin:
    request = json.loads(line)
    note(request["op"] + " " + request.get("consumer", ""))
    act = how.get(request.get("consumer", ""), {})
    if "stderr" in act:
        print(act["stderr"], file=sys.stderr, flush=True)
    for text in act.get("say", []):
        say(text.replace("$ID", str(request["id"])))
    if act.get("hang"):
        while not os.path.exists(how["log"] + ".go"):
            time.sleep(0.005)
    if act.get("exit"):
        sys.exit(3)
    if act.get("long"):
        say("x" * act["long"])
    if act.get("late"):
        # Answered after the next request: out of order.
        held = {"id": request["id"], "ok": {"found": False}}
        continue
    if request["op"] in ("holds",):
        say({"id": request["id"], "ok": act.get("facts", {"found": False})})
    else:
        say({"id": request["id"], "ok": {}})
    if "held" in globals():
        say(globals().pop("held"))
note("end")
