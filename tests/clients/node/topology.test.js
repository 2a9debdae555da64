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

test('lets the server name a queue', async (t) => {
  const ch = await channel(t);
  const { queue } = await ch.assertQueue('', { exclusive: true });
  assert.match(queue, /^amq\.gen-.{22}$/);
});

test("fails on checking a queue that's not there", async (t) => {
  const ch = await channel(t);
  const failed = event(ch, 'error');
  await assert.rejects(ch.checkQueue('no.such.queue'), /404 \(NOT-FOUND\)/);
  const error = await failed;
  assert.deepEqual([error.code, error.classId, error.methodId], [404, 50, 10]);
});

test("fails on checking an exchange that's not there", async (t) => {
  const ch = await channel(t);
  const failed = event(ch, 'error');
  await assert.rejects(ch.checkExchange('no.such.exchange'), /404 \(NOT-FOUND\)/);
  const error = await failed;
  assert.deepEqual([error.code, error.classId, error.methodId], [404, 40, 10]);
});

test('rejects a get with a proper error when the queue does not exist', async (t) => {
  const ch = await channel(t);
  const failed = event(ch, 'error');
  await assert.rejects(ch.get('no.such.queue'), /404 \(NOT-FOUND\)/);
  const error = await failed;
  assert.deepEqual([error.code, error.classId, error.methodId], [404, 60, 70]);
});

test('fails on reasserting a queue with different options', async (t) => {
  const ch = await channel(t);
  const q = name();
  await ch.assertQueue(q, { durable: false, autoDelete: true });
  await assert.rejects(ch.assertQueue(q, { durable: false, autoDelete: false }), /406 \(PRECONDITION-FAILED\).*'auto_delete'/);
  const other = await channel(t);
  await other.deleteQueue(q);
});

test('fails on reasserting an exchange with another type', async (t) => {
  const ch = await channel(t);
  await assert.rejects(ch.assertExchange('amq.topic', 'direct'), /406 \(PRECONDITION-FAILED\).*'type'/);
});

test('gives an exclusive queue to one connection only', async (t) => {
  const ch = await channel(t);
  const { queue } = await ch.assertQueue('', { exclusive: true });
  const other = await channel(t);
  await assert.rejects(other.checkQueue(queue), /405 \(RESOURCE-LOCKED\)/);
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

test('protects a queue by ifEmpty and ifUnused', async (t) => {
  const ch = await channel(t, { confirm: true });
  const { queue } = await ch.assertQueue('', { exclusive: true });
  ch.sendToQueue(queue, Buffer.from('x'));
  await ch.waitForConfirms();
  await assert.rejects(ch.deleteQueue(queue, { ifEmpty: true }), /406 \(PRECONDITION-FAILED\).*not empty/);
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

test('consumes through exchanges bound to exchanges', async (t) => {
  const ch = await channel(t, { confirm: true });
  const [first, second] = [name('x'), name('x')];
  const { queue } = await ch.assertQueue('', { exclusive: true });
  await ch.assertExchange(first, 'fanout', { durable: false });
  await ch.assertExchange(second, 'topic', { durable: false, internal: true });
  await ch.bindExchange(second, first, '');
  await ch.bindQueue(queue, second, 'a.*');
  ch.publish(first, 'a.b', Buffer.from('in'));
  ch.publish(first, 'b', Buffer.from('out'));
  await ch.unbindExchange(second, first, '');
  ch.publish(first, 'a.b', Buffer.from('unbound'));
  await ch.waitForConfirms();
  assert.deepEqual(await bodies(ch, queue), ['in']);
  await ch.deleteExchange(first);
  await ch.deleteExchange(second);
});

test('routes by headers', async (t) => {
  const ch = await channel(t, { confirm: true });
  const { queue } = await ch.assertQueue('', { exclusive: true });
  await ch.bindQueue(queue, 'amq.headers', '', { 'x-match': 'all', kind: 'a', n: 1 });
  ch.publish('amq.headers', '', Buffer.from('in'), { headers: { kind: 'a', n: 1, more: true } });
  ch.publish('amq.headers', '', Buffer.from('out'), { headers: { kind: 'a', n: 2 } });
  await ch.waitForConfirms();
  assert.deepEqual(await bodies(ch, queue), ['in']);
});

test('sends what is not routed to the alternate exchange', async (t) => {
  const ch = await channel(t, { confirm: true });
  const [x, alternate] = [name('x'), name('x')];
  const { queue } = await ch.assertQueue('', { exclusive: true });
  await ch.assertExchange(alternate, 'fanout', { durable: false });
  await ch.assertExchange(x, 'direct', { durable: false, alternateExchange: alternate });
  await ch.bindQueue(queue, alternate, '');
  ch.publish(x, 'nobody', Buffer.from('caught'), { mandatory: true });
  await ch.waitForConfirms();
  assert.deepEqual(await bodies(ch, queue), ['caught']);
  await ch.deleteExchange(x);
  await ch.deleteExchange(alternate);
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
