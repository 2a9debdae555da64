'use strict';
// What the amqplib tests share: where the broker is, a connection that closes with its test, names nobody else has.

const crypto = require('node:crypto');
const amqp = require('amqplib');

const URL = process.env.WARREN_URL || 'amqp://guest:guest@127.0.0.1:5672/%2F';

/** A connection that is closed when the test ends. Its errors are the test's to look at. */
async function connect(t, options = {}) {
  const connection = await amqp.connect(options.url || URL, options.socket || {});
  connection.on('error', () => {});
  t.after(() => connection.close().catch(() => {}));
  return connection;
}

/** A channel of a new connection; `confirm` for one that confirms publishes. */
async function channel(t, { confirm = false } = {}) {
  const connection = await connect(t);
  return quiet(await (confirm ? connection.createConfirmChannel() : connection.createChannel()));
}

/** A channel whose error events do not end the process; the calls that cause them reject all the same. */
function quiet(made) {
  made.on('error', () => {});
  return made;
}

function name(hint = 'q') {
  return `conformance.${hint}.${crypto.randomUUID()}`;
}

/** Everything in the queue, in order. */
async function bodies(ch, queue) {
  const found = [];
  for (let message = await ch.get(queue, { noAck: true }); message; message = await ch.get(queue, { noAck: true })) {
    found.push(message.content.toString());
  }
  return found;
}

/** Consumes until `count` deliveries (or nulls) have come. */
async function take(ch, queue, count, options = {}) {
  const came = [];
  let done;
  const all = new Promise((resolve) => { done = resolve; });
  const { consumerTag } = await ch.consume(queue, (message) => {
    came.push(message);
    if (came.length === count) done();
  }, options);
  await all;
  return { came, consumerTag };
}

/** The next event of that name. */
function event(emitter, what) {
  return new Promise((resolve) => emitter.once(what, resolve));
}

module.exports = { URL, amqp, bodies, channel, connect, event, name, quiet, take };
