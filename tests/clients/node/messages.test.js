'use strict';
// Mirrors amqplib's test/channel_api.js: publishing, confirms, consuming and settling.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { bodies, channel, connect, event, name, quiet, take } = require('./support');

/** A confirm channel and an exclusive queue. */
async function ready(t, options = {}) {
  const ch = await channel(t, { confirm: true });
  const { queue } = await ch.assertQueue('', { exclusive: true, ...options });
  return { ch, queue };
}

async function send(ch, queue, ...contents) {
  for (const content of contents) ch.sendToQueue(queue, Buffer.from(content));
  await ch.waitForConfirms();
}

test('gets what was sent, and false when the queue is empty', async (t) => {
  const { ch, queue } = await ready(t);
  assert.equal(await ch.get(queue), false);
  await send(ch, queue, 'one', 'two');
  const message = await ch.get(queue);
  assert.equal(message.content.toString(), 'one');
  assert.deepEqual(message.fields, {
    deliveryTag: 1, redelivered: false, exchange: '', routingKey: queue, messageCount: 1,
  });
  ch.ack(message);
  assert.deepEqual(await bodies(ch, queue), ['two']);
});

for (const size of [0, 1, 1_000_000, 10_000_000]) {
  test(`sends and gets ${size} octets of content`, async (t) => {
    const { ch, queue } = await ready(t);
    const body = Buffer.alloc(size, 'abcdefg');
    await send(ch, queue, body);
    const { content } = await ch.get(queue, { noAck: true });
    assert.equal(content.length, size);
    assert.ok(content.equals(body));
  });
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

test('nacks what a full queue rejects', async (t) => {
  const { ch, queue } = await ready(t, { maxLength: 1, arguments: { 'x-overflow': 'reject-publish' } });
  ch.sendToQueue(queue, Buffer.from('fits'));
  const error = await new Promise((resolve) => { ch.sendToQueue(queue, Buffer.from('too much'), {}, resolve); });
  assert.match(String(error), /nacked/);
  assert.deepEqual(await bodies(ch, queue), ['fits']);
});

test('copies by CC and hides BCC', async (t) => {
  const { ch, queue } = await ready(t);
  const copies = [(await ch.assertQueue('', { exclusive: true })).queue, (await ch.assertQueue('', { exclusive: true })).queue];
  ch.sendToQueue(queue, Buffer.from('x'), { CC: copies[0], BCC: [copies[1]] });
  await ch.waitForConfirms();
  for (const target of [queue, ...copies]) {
    const message = await ch.get(target, { noAck: true });
    assert.equal(message.fields.routingKey, queue);
    assert.deepEqual(message.properties.headers.CC, [copies[0]]);
    assert.equal('BCC' in message.properties.headers, false);
  }
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

test('keeps to the prefetch', async (t) => {
  const { ch, queue } = await ready(t);
  await send(ch, queue, 'a', 'b', 'c');
  await ch.prefetch(2);
  const { came, consumerTag } = await take(ch, queue, 2);
  assert.equal((await ch.checkQueue(queue)).messageCount, 1);
  await ch.cancel(consumerTag);
  ch.nack(came[1], true);
  assert.deepEqual(await bodies(ch, queue), ['a', 'b', 'c']);
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

test('settles all that is outstanding', async (t) => {
  const { ch, queue } = await ready(t);
  await send(ch, queue, 'a', 'b');
  await ch.get(queue);
  await ch.get(queue);
  ch.nackAll(true);
  assert.equal((await ch.get(queue)).content.toString(), 'a');
  assert.equal((await ch.get(queue)).content.toString(), 'b');
  ch.ackAll();
  ch.ackAll();
  assert.equal(await ch.get(queue), false);
});

test('fails on an unknown delivery tag', async (t) => {
  const { ch, queue } = await ready(t);
  const failed = event(ch, 'error');
  ch.ack({ fields: { deliveryTag: 99 } });
  await assert.rejects(ch.checkQueue(queue));
  const error = await failed;
  assert.deepEqual([error.code, error.classId, error.methodId], [406, 60, 80]);
  assert.match(error.message, /unknown delivery tag 99/);
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

test('serves an exclusive consumer alone', async (t) => {
  const connection = await connect(t);
  const [ch, other] = [await connection.createChannel(), quiet(await connection.createChannel())];
  const { queue } = await ch.assertQueue('', { exclusive: true });
  await ch.consume(queue, () => {}, { exclusive: true });
  await assert.rejects(other.consume(queue, () => {}), /403 \(ACCESS-REFUSED\).*in exclusive use/);
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
