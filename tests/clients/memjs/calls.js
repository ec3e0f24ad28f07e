// The Node client memjs against the servers that server.py names in the environment: what applications do every day,
// in the binary protocol, over TCP and a UNIX socket, with and without a password. memjs has no TLS.
"use strict";

const assert = require("node:assert/strict");
const memjs = require("memjs");
const { makeRequestBuffer } = require("memjs/lib/memjs/utils");

const PATIENCE_SECONDS = 10;
const SET = 0x01;
const PREPEND = 0x0f;
const SILENT = { log() {} };

// Flags travel in the extras: four bytes before whatever else is there.
class WithFlags {
  constructor() {
    this.flags = 0;
  }
  serialize(opcode, value, extras) {
    if (extras.length === 8) {
      extras.writeUInt32BE(this.flags, 0);
    }
    return { value, extras };
  }
  deserialize(opcode, value, extras) {
    return { value, extras };
  }
}

function connect(place, login) {
  const [host, port] = place.startsWith("/") ? ["localhost", place] : place.split(":");
  const options = { timeout: PATIENCE_SECONDS, retries: 0, logger: SILENT, serializer: new WithFlags() };
  const server = new memjs.Server(host, port, login.user, login.password, options);
  return new memjs.Client([server], options);
}

async function value(client, key) {
  const found = (await client.get(key)).value;
  return found === null ? null : found.toString();
}

// A request that memjs has no call for, or sends wrongly: its prepend sends an append.
function perform(client, opcode, key, extras, content, cas) {
  client.incrSeq();
  const sequence = client.seq;
  const request = makeRequestBuffer(opcode, key, extras, content, sequence);
  request.writeBigUInt64BE(cas, 16);
  return new Promise((resolve, reject) => {
    client.perform(key, request, sequence, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

async function storage(client) {
  assert.equal(await client.set("key", "value", {}), true);
  assert.equal(await value(client, "key"), "value");
  assert.equal(await value(client, "missing"), null);
  assert.equal(await client.set("empty", "", {}), true);
  assert.equal(await value(client, "empty"), "");
  assert.equal(await client.add("added", "1", {}), true);
  assert.equal(await client.add("added", "2", {}), false);
  assert.equal(await client.replace("added", "3", {}), true);
  assert.equal(await client.replace("other", "3", {}), false);
  assert.equal(await client.append("added", ">"), true);
  assert.equal((await perform(client, PREPEND, "added", "", "<", 0n)).header.status, 0);
  assert.equal(await value(client, "added"), "<3>");
  await assert.rejects(client.append("other", ">"), /APPEND/);
  assert.equal(await client.delete("key"), true);
  assert.equal(await client.delete("key"), false);
  assert.equal(await value(client, "key"), null);
}

async function flags(client) {
  for (const flags of [1, 65535, 4294967295]) {
    client.serializer.flags = flags;
    assert.equal(await client.set("flags", "x", {}), true);
    assert.equal((await client.get("flags")).flags.readUInt32BE(0), flags);
  }
  client.serializer.flags = 0;
}

async function counters(client) {
  assert.deepEqual(await client.increment("count", 5, { initial: 10 }), { success: true, value: 10 });
  assert.deepEqual(await client.increment("count", 5, {}), { success: true, value: 15 });
  assert.deepEqual(await client.decrement("count", 20, {}), { success: true, value: 0 });
  await client.set("word", "x", {});
  await assert.rejects(client.increment("word", 1, {}), /INCREMENT/);
}

async function many(client) {
  const keys = Array.from({ length: 500 }, (_, number) => `many${number}`);
  await Promise.all(keys.map((key) => client.set(key, `v${key}`, {})));
  const found = await Promise.all([...keys, "missing"].map((key) => value(client, key)));
  assert.deepEqual(found, [...keys.map((key) => `v${key}`), null]);
}

async function compareAndSwap(client) {
  const extras = Buffer.alloc(8);
  const first = await perform(client, SET, "cas", extras, "old", 0n);
  const unique = first.header.cas.readBigUInt64BE(0);
  assert.notEqual(unique, 0n);
  assert.equal((await perform(client, SET, "cas", extras, "new", unique)).header.status, 0);
  assert.equal((await perform(client, SET, "cas", extras, "late", unique)).header.status, 2);
  assert.equal((await perform(client, SET, "missing", extras, "x", unique)).header.status, 1);
  assert.equal(await value(client, "cas"), "new");
}

async function expiration(client) {
  await client.set("long", "x", { expires: 500 });
  assert.equal(await client.touch("long", 600), true);
  assert.equal(await client.touch("missing", 600), false);
  assert.equal(await client.touch("long", 1), true);
  await client.set("second", "x", { expires: 1 });
  const deadline = Date.now() + PATIENCE_SECONDS * 1000;
  while ((await value(client, "second")) !== null || (await value(client, "long")) !== null) {
    assert.ok(Date.now() < deadline, "an item of one second does not expire");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function keysAndValues(client) {
  for (const key of ["k".repeat(250), "schlüssel-键-ключ"]) {
    assert.equal(await client.set(key, key, {}), true);
    assert.equal(await value(client, key), key);
  }
  const large = Buffer.alloc((1 << 20) - 1000);
  large.forEach((_, index) => {
    large[index] = index % 251;
  });
  assert.equal(await client.set("large", large, {}), true);
  assert.ok(large.equals((await client.get("large")).value));
  await assert.rejects(client.set("large", Buffer.alloc((1 << 20) + 1), {}), /SET/);
  assert.equal(await client.set("after", "x", {}), true);
}

function stats(client) {
  return new Promise((resolve, reject) => {
    client.stats((error, _server, found) => (error ? reject(error) : resolve(found)));
  });
}

async function administration(client) {
  const found = await stats(client);
  assert.ok("curr_items" in found && "pid" in found);
  await client.flush();
  assert.equal(await value(client, "after"), null);
}

const STEPS = [storage, flags, counters, many, compareAndSwap, expiration, keysAndValues, administration];

async function run(name, place, login) {
  const client = connect(place, login);
  await client.flush();
  for (const step of STEPS) {
    await step(client);
  }
  client.close();
  console.log(`memjs over ${name}: ${STEPS.length} groups of calls as expected`);
}

async function main() {
  const place = process.env;
  const login = { user: place.GUIRA_USER, password: place.GUIRA_PASSWORD };
  await run("TCP", place.GUIRA_PLAIN, {});
  await run("a UNIX socket", place.GUIRA_UNIX, {});
  await run("TCP, with a password", place.GUIRA_SASL, login);
  await run("a UNIX socket, with a password", place.GUIRA_SASL_UNIX, login);
  const wrong = connect(place.GUIRA_SASL, { user: login.user, password: "wrong" });
  await assert.rejects(wrong.get("key"), (error) => /authentication failed/.test(String(error)));
}

main().catch((error) => {
  console.log(error);
  process.exitCode = 1;
});
