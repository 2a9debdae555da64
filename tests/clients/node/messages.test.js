'use strict';
// Mirrors amqplib's test/channel_api.js: publishing, confirms, consuming and settling.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { bodies, channel, connect, name, take } = require('./support');

/** A confirm channel and an exclusive queue. */
async function ready(t) {
  const ch = await channel(t, { confirm: true });
  const { queue } = await ch.assertQueue('', { exclusive: true });
  return { ch, queue };
}

async function send(ch, queue, ...contents) {
  for (const content of contents) ch.sendToQueue(queue, Buffer.from(content));
  await ch.waitForConfirms();
}

test('gives properties and headers of every type back', async (t) => {
  const { ch, queue } = await ready(t);
  const options = {
    contentType: 'text/plain', contentEncoding: 'utf-8', deliveryMode: 2, priority: 3, correlationId: 'c', replyTo: 'r',
    expiration: '60000', messageId: 'm', timestamp: 1_700_000_000, type: 't', userId: 'guest', appId: 'a',
    headers: {
      bool: true, int: -5, big: 2 ** 40, double: 2.5, text: 'café ⚙', none: null, list: [1, 'two', [{ three: 3 }]],
      table: { a: { b: {} } }, binary: Buffer.from([0, 255]),
      short: { '!': 'short', value: 7 }, byte: { '!': 'byte', value: -7 }, float: { '!': 'float', value: 0.5 },
      time: { '!': 'timestamp', value: 1_700_000_000 }, decimal: { '!': 'decimal', value: { digits: 314, places: 2 } },
    },
  };
  ch.sendToQueue(queue, Buffer.from('x'), options);
  await ch.waitForConfirms();
  const { properties } = await ch.get(queue, { noAck: true });
  for (const [key, value] of Object.entries(options)) {
    if (key !== 'headers') assert.deepEqual(properties[key], value, key);
  }
  assert.deepEqual({ ...properties.headers }, {
    ...options.headers, short: 7, byte: -7, float: 0.5,
  });
});

test('returns an unroutable message before it confirms it', async (t) => {
  const ch = await channel(t, { confirm: true });
  const order = [];
  let returned;
  ch.on('return', (message) => { order.push('return'); returned = message; });
  for (let round = 0; round < 20; round += 1) {
    await new Promise((resolve, reject) => {
      ch.publish('', 'no.such.queue', Buffer.from('back'), { mandatory: true, messageId: 'm' }, (error) => {
        order.push('confirm');
        if (error) reject(error); else resolve();
      });
    });
  }
  assert.deepEqual(order, Array(20).fill(['return', 'confirm']).flat());
  assert.equal(returned.content.toString(), 'back');
  assert.equal(returned.properties.messageId, 'm');
  assert.deepEqual([returned.fields.replyCode, returned.fields.replyText], [312, 'NO_ROUTE']);
});

test('confirms many, once each', async (t) => {
  const { ch, queue } = await ready(t);
  const confirmed = [];
  for (let number = 0; number < 1000; number += 1) {
    ch.sendToQueue(queue, Buffer.from(String(number)), {}, (error) => confirmed.push(error ? 'nack' : number));
  }
  await ch.waitForConfirms();
  assert.deepEqual(confirmed.sort((a, b) => a - b), Array.from({ length: 1000 }, (_, number) => number));
  assert.equal((await ch.checkQueue(queue)).messageCount, 1000);
});

test('consumes in order with one tag, and cancels', async (t) => {
  const { ch, queue } = await ready(t);
  const contents = Array.from({ length: 100 }, (_, number) => String(number));
  await send(ch, queue, ...contents);
  const { came, consumerTag } = await take(ch, queue, 100);
  assert.deepEqual(came.map((message) => message.content.toString()), contents);
  assert.deepEqual(came.map((message) => message.fields.deliveryTag), contents.map((_, index) => index + 1));
  assert.ok(came.every((message) => message.fields.consumerTag === consumerTag));
  assert.match(consumerTag, /^amq\.ctag-/);
  assert.deepEqual(await ch.cancel(consumerTag), { consumerTag });
  ch.ackAll();
  assert.deepEqual(await ch.cancel('unknown'), { consumerTag: 'unknown' });
  await send(ch, queue, 'later');
  assert.deepEqual(await bodies(ch, queue), ['later']);
});

test('puts back what is nacked, rejected or recovered, and drops the rest', async (t) => {
  const { ch, queue } = await ready(t);
  await send(ch, queue, 'a', 'b', 'c', 'd');
  const [a, b, c, d] = [await ch.get(queue), await ch.get(queue), await ch.get(queue), await ch.get(queue)];
  ch.nack(b, true, true);
  ch.reject(c, false);
  const again = await ch.get(queue);
  assert.deepEqual([again.content.toString(), again.fields.redelivered], ['a', true]);
  assert.equal(a.fields.redelivered, false);
  ch.nack(d, false, false);
  await ch.recover();
  assert.deepEqual(await bodies(ch, queue), ['a', 'b']);
});

test('tells a consumer with null that its queue is gone', async (t) => {
  const connection = await connect(t);
  const [ch, other] = [await connection.createChannel(), await connection.createChannel()];
  const queue = name();
  await ch.assertQueue(queue, { durable: false });
  const cancelled = new Promise((resolve) => { ch.consume(queue, resolve).then(() => other.deleteQueue(queue)); });
  assert.equal(await cancelled, null);
  await ch.assertQueue('', { exclusive: true });
});

test('answers a request by direct reply-to', async (t) => {
  const connection = await connect(t);
  const [client, server] = [await connection.createChannel(), await connection.createChannel()];
  const { queue } = await server.assertQueue('', { exclusive: true });
  await server.consume(queue, (request) => {
    server.sendToQueue(request.properties.replyTo, Buffer.from(`re: ${request.content}`), {
      correlationId: request.properties.correlationId,
    });
  }, { noAck: true });
  const reply = new Promise((resolve) => {
    client.consume('amq.rabbitmq.reply-to', resolve, { noAck: true }).then(() => {
      client.sendToQueue(queue, Buffer.from('hello'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: '1' });
    });
  });
  const message = await reply;
  assert.equal(message.content.toString(), 're: hello');
  assert.equal(message.properties.correlationId, '1');
});
