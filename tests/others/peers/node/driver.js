"use strict";
// Drives node-redlock for the tests: one command a line, one answer a line.
//
// A command is `<id> <word> <arguments>`, its answer `<id> ok <value>` or `<id> err <text>`. One that
// waits keeps nobody else waiting. Locks are known by aliases.

const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const { Redis } = require("ioredis");
const { default: Redlock, ExecutionError, Lock, ResourceLockedError } = require("redlock");

// A server that is down is to fail at once, as one vote less.
const servers = process.argv.slice(2).map((url) => {
  const server = new Redis(url, { enableOfflineQueue: false, maxRetriesPerRequest: 0 });
  server.on("error", () => {});
  return server;
});
const tried = Promise.all(
  servers.map((server) => new Promise((done) => server.once("ready", done).once("close", done))),
);
// It asks once, and `waitFor` repeats: its own retries keep the votes of a minority from one to the
// next and then take them for somebody else's, until they expire.
const redlock = new Redlock(servers, { retryCount: 0 });
const locks = new Map();

/** Did a majority refuse because the key is another's or gone? Anything else is a fault. */
async function refused(error) {
  if (!(error instanceof ExecutionError)) return false;
  const last = await error.attempts.at(-1);
  // What has expired by its own clock is not asked for.
  if (!last) return true;
  const refusals = [...last.votesAgainst.values()].filter((e) => e instanceof ResourceLockedError);
  return refusals.length >= last.quorumSize;
}

/** True, or false if that was refused. */
async function isDone(work) {
  try {
    await work();
    return true;
  } catch (error) {
    if (await refused(error)) return false;
    throw error;
  }
}

/** Keys are joined by commas. */
function make(alias, keys, lease) {
  locks.set(alias, { resources: keys.split(","), duration: Number(lease), held: undefined });
  return "made";
}

/** What another program took, by its owner text. */
function adopt(alias, owner) {
  const mine = locks.get(alias);
  mine.held = new Lock(redlock, mine.resources, owner, [], Date.now() + mine.duration);
  return "adopted";
}

async function acquire(mine) {
  mine.held = await redlock.acquire(mine.resources, mine.duration);
}

/** Repeats what is refused. */
async function waitFor(work) {
  while (!(await isDone(work))) await sleep(2 + 16 * Math.random());
}

async function enter(rounds, key, duration) {
  const [outside] = servers;
  for (let round = 0; round < rounds; round += 1) {
    const mine = { resources: [key], duration };
    await waitFor(() => acquire(mine));
    if ((await outside.incr("inside")) !== 1) return 1;
    const before = Number(await outside.get("entered"));
    await sleep(1);
    await outside.set("entered", before + 1);
    await outside.decr("inside");
    await mine.held.release();
  }
  return 0;
}

/** Enters by many at once; how many met somebody inside. They count on the first server. */
async function contend(contenders, rounds, key, lease) {
  const all = Array.from({ length: Number(contenders) }, () =>
    enter(Number(rounds), key, Number(lease)),
  );
  return (await Promise.all(all)).reduce((sum, met) => sum + met, 0);
}

const commands = {
  make: (_, ...words) => make(...words),
  adopt,
  try: (alias) => isDone(() => acquire(locks.get(alias))),
  lock: async (alias) => {
    await waitFor(() => acquire(locks.get(alias)));
    return "locked";
  },
  release: (alias) => isDone(() => redlock.release(locks.get(alias).held)),
  extend: (alias, lease) =>
    isDone(async () => {
      const mine = locks.get(alias);
      mine.held = await redlock.extend(mine.held, Number(lease));
    }),
  owner: (alias) => locks.get(alias).held.value,
  contend: (_, ...words) => contend(...words),
};

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const [id, word, ...words] = line.split(" ");
  let answer;
  try {
    await tried;
    answer = `ok ${await commands[word](...words)}`;
  } catch (error) {
    answer = `err ${String(error).replaceAll(/\s+/g, " ")}`;
  }
  process.stdout.write(`${id} ${answer}\n`);
});
