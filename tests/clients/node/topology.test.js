'use strict';
// Mirrors amqplib's test/channel_api.js: asserting, checking, binding and deleting.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { bodies, channel, connect, event, name, quiet } = require('./support');

test('asserts, checks and deletes a queue', async (t) => {
  const ch = await channel(t);
  const q = name();
  assert.deepEqual(await ch.assertQueue(q, { durable: false }), { queue: q, messageCount: 0, consumerCount: 0 });
  assert.deepEqual(await ch.checkQueue(q), { queue: q, messageCount: 0, consumerCount: 0 });
  assert.deepEqual(await ch.purgeQueue(q), { messageCount: 0 });
  assert.deepEqual(await ch.deleteQueue(q), { messageCount: 0 });
  assert.deepEqual(await ch.deleteQueue(q), { messageCount: 0 });
});

test('turns queue options into arguments', async (t) => {
  const ch = await channel(t);
  const q = name();
  const options = {
    durable: false, expires: 60000, messageTtl: 30000, maxLength: 10, maxPriority: 5,
    deadLetterExchange: '', deadLetterRoutingKey: 'dead', arguments: { 'x-overflow': 'reject-publish' },
  };
  await ch.assertQueue(q, options);
  await ch.assertQueue(q, options);
  await assert.rejects(ch.assertQueue(q, { ...options, maxLength: 11 }), /inequivalent arg 'x-max-length'/);
  const other = await channel(t);
  await other.deleteQueue(q);
});

test('binds and unbinds a queue', async (t) => {
  const ch = await channel(t, { confirm: true });
  const x = name('x');
  const { queue } = await ch.assertQueue('', { exclusive: true });
  await ch.assertExchange(x, 'direct', { durable: false });
  await ch.bindQueue(queue, x, 'key');
  ch.publish(x, 'key', Buffer.from('bound'));
  await ch.unbindQueue(queue, x, 'key');
  ch.publish(x, 'key', Buffer.from('unbound'));
  await ch.waitForConfirms();
  assert.deepEqual(await bodies(ch, queue), ['bound']);
  await ch.deleteExchange(x);
});

test('breaks the channel on publishing to no exchange, and leaves the connection', async (t) => {
  const connection = await connect(t);
  const ch = quiet(await connection.createChannel());
  const failed = event(ch, 'error');
  const closed = event(ch, 'close');
  ch.publish('no.such.exchange', 'key', Buffer.from('lost'));
  const error = await failed;
  assert.deepEqual([error.code, error.classId, error.methodId], [404, 60, 40]);
  await closed;
  await (await connection.createChannel()).assertQueue('', { exclusive: true });
});

test('survives a close that crosses the close of the server', async (t) => {
  const connection = await connect(t);
  for (let round = 0; round < 20; round += 1) {
    const ch = quiet(await connection.createChannel());
    const ended = event(ch, 'close');
    ch.publish('no.such.exchange', '', Buffer.from(''));
    ch.close().catch(() => {});
    await ended;
  }
  await (await connection.createChannel()).assertQueue('', { exclusive: true });
});
