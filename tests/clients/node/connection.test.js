'use strict';
// Mirrors amqplib's test/connect.js and test/connection.js where they speak to a real broker.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { URL, amqp, connect, event, quiet } = require('./support');

const parts = new globalThis.URL(URL);

function address(changes = {}) {
  return {
    protocol: 'amqp', hostname: parts.hostname, port: Number(parts.port), username: 'guest', password: 'guest',
    vhost: '/', ...changes,
  };
}

test('connects by URL and by object, and closes', async () => {
  for (const target of [URL, address()]) {
    const connection = await amqp.connect(target);
    const closed = event(connection, 'close');
    await connection.close();
    await closed;
  }
});

test('shows the server properties', async (t) => {
  const connection = await connect(t);
  const properties = connection.connection.serverProperties;
  for (const key of ['product', 'version', 'platform', 'copyright', 'information', 'cluster_name']) {
    assert.equal(typeof properties[key], 'string', key);
  }
  assert.equal(properties.capabilities['basic.nack'], true);
  assert.equal(properties.capabilities.publisher_confirms, true);
});

for (const mechanism of ['plain', 'amqplain']) {
  test(`logs in with ${mechanism} credentials, and is refused with wrong ones`, async (t) => {
    const credentials = (password) => ({ credentials: amqp.credentials[mechanism]('guest', password) });
    await connect(t, { socket: credentials('guest') });
    await assert.rejects(connect(t, { socket: credentials('not it') }), /403 \(ACCESS-REFUSED\).*Login was refused/);
  });
}

// amqplib shows a refused connection.open as the method it did not expect.
test('refuses an unknown vhost', async (t) => {
  await assert.rejects(connect(t, { url: address({ vhost: 'nowhere' }) }), /ConnectionOpenOk; got <ConnectionClose/);
});

test('lives on heartbeats when idle', async (t) => {
  const connection = await connect(t, { url: address({ heartbeat: 1 }) });
  assert.equal(connection.connection.heartbeat, 1);
  let ended = false;
  connection.once('close', () => { ended = true; });
  await new Promise((resolve) => setTimeout(resolve, 2600)); // the clock is what is tested
  assert.equal(ended, false);
  await connection.createChannel();
});

test('can be opened without heartbeats', async (t) => {
  const connection = await connect(t, { url: address({ heartbeat: 0 }) });
  assert.equal(connection.connection.heartbeat, 0);
  await connection.createChannel();
});

test('agrees on a small frame size and few channels', async (t) => {
  const connection = await connect(t, { url: address({ frameMax: 8192, channelMax: 4 }) });
  assert.equal(connection.connection.frameMax, 8192);
  const ch = await connection.createConfirmChannel();
  const { queue } = await ch.assertQueue('', { exclusive: true });
  const body = Buffer.alloc(100_000, 'x');
  ch.sendToQueue(queue, body);
  await ch.waitForConfirms();
  assert.deepEqual((await ch.get(queue, { noAck: true })).content, body);
});

test('takes a new secret', async (t) => {
  const connection = await connect(t);
  await connection.updateSecret(Buffer.from('new secret'), 'for a test');
  await connection.createChannel();
});

test('takes listeners for blocked and unblocked', async (t) => {
  const connection = await connect(t);
  const told = [];
  connection.on('blocked', (reason) => told.push(reason));
  connection.on('unblocked', () => told.push(null));
  await connection.createChannel();
  assert.deepEqual(told, []);
});

test('opens and closes many channels', async (t) => {
  const connection = await connect(t);
  for (let round = 0; round < 50; round += 1) {
    const ch = await connection.createChannel();
    await ch.close();
  }
  await Promise.all(Array.from({ length: 50 }, () => connection.createChannel()));
});

test('tells of a connection error with its code', async (t) => {
  const connection = await connect(t);
  const failed = event(connection, 'error');
  const ch = quiet(await connection.createChannel());
  const { queue } = await ch.assertQueue('', { exclusive: true });
  await ch.consume(queue, () => {}, { consumerTag: 'mine' });
  ch.consume(queue, () => {}, { consumerTag: 'mine' }).catch(() => {});
  const error = await failed;
  assert.equal(error.code, 530);
  assert.match(error.message, /attempt to reuse consumer tag 'mine'/);
});
