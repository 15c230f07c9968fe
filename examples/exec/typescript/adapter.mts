#!/usr/bin/env node
// A Meshkeeper adapter in TypeScript: the same folder of users as the one in Python, and its bulk forms too.
//
// The protocol is docs/spec/exec-adapter.md. `settings` of the provider: `folder`, and `cost` (of scrypt, as a
// power of two; 14 unless said). Values of a consumer: `rights`, a list of read, write, delete.
import { createHash, createHmac, randomBytes, scryptSync, timingSafeEqual } from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";
import { createInterface } from "node:readline";

interface User {
  login: string;
  hash: string;
  enabled: boolean;
  rights: string[];
  mark: string | null;
}
interface Wish {
  login: string;
  password?: string;
  values: { rights?: string[] };
  enabled: boolean;
  exact: boolean;
  mark: string;
  take_over: boolean;
}
interface Leaving {
  login: string;
  mark: string;
}
type Request = { id: number; op: string; wishes: Wish[]; logins: string[]; name: string } & Wish & Leaving;
interface Hello {
  versions: number[];
  settings: { folder: string; cost?: number };
}

/** An answer that says no. */
class Trouble extends Error {
  readonly kind: string;
  readonly field: string | undefined;
  constructor(kind: string, message: string, field?: string) {
    super(message);
    this.kind = kind;
    this.field = field;
  }
}

const RIGHTS = new Set(["read", "write", "delete"]);
let folder = "";
let cost = 14;

// What was proven before needs no slow hash again.
const key = randomBytes(32);
const proven = new Map<string, string>();

const hashed = (name: string) => createHash("sha256").update(name).digest("hex");
const fileOf = (login: string) => path.join(folder, hashed(login) + ".json");
const dataOf = (login: string) => path.join(folder, "data", hashed(login));

/** What is not there is an answer, and every other error is one. */
function ifThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function load(login: string): User | undefined {
  const text = ifThere(() => fs.readFileSync(fileOf(login), "utf8"));
  return text === undefined ? undefined : (JSON.parse(text) as User);
}

/** Whole or not at all: a new file takes the old one's place. Each change is a line in `changes`. */
function save(what: string, login: string, user?: User): void {
  if (user) {
    const draft = `${fileOf(login)}.${randomBytes(8).toString("hex")}`;
    fs.writeFileSync(draft, JSON.stringify(user), { mode: 0o600, flush: true });
    fs.renameSync(draft, fileOf(login));
  } else {
    fs.unlinkSync(fileOf(login));
  }
  note(what, login);
}

function note(what: string, login: string): void {
  const line = JSON.stringify({ at: Math.floor(Date.now() / 1000), what, login });
  fs.appendFileSync(path.join(folder, "changes"), line + "\n");
}

function scrypt(password: string, power: number, salt: Buffer): string {
  const N = 2 ** power;
  const hash = scryptSync(password, salt, 32, { N, r: 8, p: 1, maxmem: 2 ** 28 });
  return `scrypt$${power}$${salt.toString("base64")}$${hash.toString("base64")}`;
}

function fits(stored: string, password: string): boolean {
  const tag = createHmac("sha256", key).update(password).digest("hex");
  if (proven.get(stored) === tag) return true;
  const [, power = "", salt = ""] = stored.split("$");
  const again = scrypt(password, Number(power), Buffer.from(salt, "base64"));
  const same = again.length === stored.length && timingSafeEqual(Buffer.from(again), Buffer.from(stored));
  if (same) proven.set(stored, tag);
  return same;
}

function rights(values: Wish["values"]): string[] {
  if (Object.keys(values).some((name) => name !== "rights"))
    throw new Trouble("refused_value", "the only key is `rights`", "values");
  const wanted = values.rights ?? [];
  const unknown = wanted.find((right) => !RIGHTS.has(right));
  if (unknown !== undefined) throw new Trouble("refused_value", `no such right: ${unknown}`, "rights");
  return [...new Set(wanted)].sort();
}

function holds(wish: Wish): object {
  const [user, wanted] = [load(wish.login), rights(wish.values)];
  if (!user) return { found: false };
  const seen = wish.password === undefined ? "unknown" : fits(user.hash, wish.password) ? "fits" : "differs";
  return {
    found: true,
    enabled: user.enabled,
    mark: user.mark,
    password: seen,
    proof: "verifier",
    missing: wanted.filter((right) => !user.rights.includes(right)),
    surplus: user.rights.filter((right) => !wanted.includes(right)),
  };
}

function create(wish: Wish): object {
  const { login, password = "", mark, enabled } = wish;
  const [user, wanted] = [load(login), rights(wish.values)];
  if (user && user.mark !== mark && !wish.take_over)
    throw new Trouble("exists", "somebody else's login", "login");
  const more = wish.exact ? [] : (user?.rights ?? []);
  const all = [...new Set([...wanted, ...more])].sort();
  const hash = user && fits(user.hash, password) ? user.hash : scrypt(password, cost, randomBytes(16));
  const same = user && user.hash === hash && user.enabled === enabled && user.mark === mark;
  if (!same || user.rights.join() !== all.join()) save("create", login, { login, hash, enabled, rights: all, mark });
  return {};
}

/** The login, if it is there; it must carry the mark that we are told. */
function leaving({ login, mark }: Leaving): User | undefined {
  const user = load(login);
  if (user && user.mark !== mark) throw new Trouble("exists", "the login does not carry our mark", "login");
  return user;
}

function remove(request: Leaving): object {
  if (leaving(request)) save("remove", request.login);
  return {};
}

function disable(request: Leaving): object {
  const user = leaving(request);
  if (user?.enabled) save("disable", request.login, { ...user, enabled: false });
  return {};
}

function list(id: number, more: (user: User) => object): object {
  for (const name of fs.readdirSync(folder).filter((name) => name.endsWith(".json"))) {
    const user = JSON.parse(fs.readFileSync(path.join(folder, name), "utf8")) as User;
    say({ id, item: { login: user.login, mark: user.mark, enabled: user.enabled, ...more(user) } });
  }
  return {};
}

/** Whoever lets people in writes a line for each try into `logins`; the last one counts. */
function uses({ id, logins }: Request): object {
  const text = ifThere(() => fs.readFileSync(path.join(folder, "logins"), "utf8")) ?? "";
  const last = new Map<string, { at: number; let_in: boolean }>();
  for (const line of text.split("\n").filter(Boolean)) {
    const seen = JSON.parse(line) as { at: number; login: string; let_in: boolean };
    last.set(seen.login, seen);
  }
  logins.forEach((login, index) => {
    const seen = last.get(login);
    if (!seen) return;
    const seconds = Math.max(0, Date.now() / 1000 - seen.at);
    say({ id, item: { index, seconds, how: seen.let_in ? "a login" : "a login that was refused" } });
  });
  return {};
}

/** The files that a login left. As long as it is there they are its own. */
function left(name: string): string[] {
  if (load(name)) throw new Trouble("exists", `the login ${name} may still use them`);
  return ifThere(() => fs.readdirSync(dataOf(name))) ?? [];
}

function data(name: string): object {
  const files = left(name).length;
  return files ? { data: `${files} files` } : {};
}

function purge(name: string): object {
  if (left(name).length === 0) return {};
  fs.rmSync(dataOf(name), { recursive: true });
  note("purge", name);
  return {};
}

/** Many with one request: an item for each as soon as it is known. One that fails stops no other. */
function each(request: Request, one: (wish: Wish) => object): object {
  request.wishes.forEach((wish, index) => say({ id: request.id, item: { index, ...outcome(() => one(wish)) } }));
  return {};
}

function outcome(work: () => object): object {
  try {
    return { ok: work() };
  } catch (error) {
    const kind = error instanceof Trouble ? error.kind : "busy";
    const field = error instanceof Trouble ? error.field : undefined;
    return { error: { class: kind, message: (error as Error).message, field } };
  }
}

function answer(request: Request): object {
  switch (request.op) {
    case "holds":
      return holds(request);
    case "holds_all":
      return each(request, holds);
    case "check":
      return rights(request.values), {};
    case "create":
      return create(request);
    case "create_all":
      return each(request, create);
    case "remove":
      return remove(request);
    case "disable":
      return disable(request);
    case "list":
      return list(request.id, () => ({}));
    case "find":
      return list(request.id, ({ rights }) => ({ values: { rights } }));
    case "uses":
      return uses(request);
    case "data":
      return data(request.name);
    case "purge":
      return purge(request.name);
    case "server":
      return { version: `a folder of users, by Node ${process.versions.node}`, identity: identity() };
    case "doctor":
      return doctor(request.id);
    default:
      throw new Trouble("cannot", `nothing is known of ${request.op}`);
  }
}

/** Made once, and lost only with the folder. */
function identity(): string {
  const file = path.join(folder, "identity");
  try {
    fs.writeFileSync(file, randomBytes(8).toString("hex"), { flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  return fs.readFileSync(file, "utf8");
}

function doctor(id: number): object {
  const open = (fs.statSync(folder).mode & 0o077) !== 0;
  const message = open ? `${folder} can be read by others` : `${folder} is only ours`;
  say({ id, item: { level: open ? "warning" : "ok", about: "folder", message } });
  return {};
}

function say(line: object): void {
  fs.writeSync(1, JSON.stringify(line) + "\n");
}

const CAPABILITIES = [
  "server", "holds", "holds_all", "create_all", "check", "disable", "list", "doctor", "find", "uses", "purge",
];

let greeted = false;
createInterface({ input: process.stdin, terminal: false }).on("line", (line) => {
  if (greeted) {
    const request = JSON.parse(line) as Request;
    return say({ id: request.id, ...outcome(() => answer(request)) });
  }
  const hello = JSON.parse(line) as Hello;
  if (!hello.versions.includes(1)) {
    say({ error: { class: "cannot", message: "this adapter speaks version 1" } });
    process.exit();
  }
  ({ folder, cost = 14 } = hello.settings);
  fs.mkdirSync(folder, { mode: 0o700, recursive: true });
  say({ version: 1, name: "a folder of users (TypeScript)", capabilities: CAPABILITIES });
  greeted = true;
});
